"""Which seccomp profiles a pod names (scheduler-plugins v0.34.7, pkg/sysched)."""

from scheduler.framework import SeccompPaths
from secondary_scheduler.kube.model import Pod, SecurityContext

_LOCALHOST = "Localhost"
_ANNOTATION = "seccomp.security.alpha.kubernetes.io"
"""Part of the keys under which the security-profiles-operator notes profiles."""


def seccomp_paths(pod: Pod) -> SeccompPaths:
    """Return the paths of local profiles in the security contexts of a pod and its main containers, and those in its
    annotations, in the order of their keys."""
    found = (_path(pod.spec.security_context), *(_path(one.security_context) for one in pod.spec.containers))
    noted = [(key, path) for key, path in pod.metadata.annotations.items() if _ANNOTATION in key]
    return SeccompPaths(tuple(path for path in found if path), tuple(path for _, path in sorted(noted)))


def _path(context: SecurityContext | None) -> str:
    profile = context.seccomp_profile if context is not None else None
    return profile.localhost_profile if profile is not None and profile.type == _LOCALHOST else ""
