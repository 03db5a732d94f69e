"""Which seccomp profiles a pod names (scheduler-plugins v0.34.7, pkg/sysched)."""

from scheduler.framework import SeccompPaths
from scheduler.framework.objects import NO_SECCOMP_PATHS
from scheduler.kube.model import Pod, SecurityContext

_LOCALHOST = "Localhost"
_ANNOTATION = "seccomp.security.alpha.kubernetes.io"
"""Part of the keys under which the security-profiles-operator notes profiles."""


def seccomp_paths(pod: Pod) -> SeccompPaths:
    """Return the paths of local profiles in the security contexts of a pod and its main containers, and those in its
    annotations, in the order of their keys."""
    # Asked of each pod that comes, and nearly all have none.
    paths = [path for container in pod.spec.containers if (path := _localhost_path(container.security_context))]
    if path := _localhost_path(pod.spec.security_context):
        paths.insert(0, path)
    annotated = [(key, path) for key, path in pod.metadata.annotations.items() if _ANNOTATION in key]
    if not paths and not annotated:
        return NO_SECCOMP_PATHS
    return SeccompPaths(tuple(paths), tuple(path for _, path in sorted(annotated)))


def _localhost_path(context: SecurityContext | None) -> str:
    profile = context.seccomp_profile if context is not None else None
    return profile.localhost_profile if profile is not None and profile.type == _LOCALHOST else ""
