"""What a container's securityContext asks of its sandbox. Pure."""

from dataclasses import dataclass
from typing import Any

from devcluster.node_agent.objects import ContainerConfigError, Obj

# Linux capability numbers (linux/capability.h) of the set that runtimes give by default.
DEFAULT_CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "MKNOD": 27,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}


@dataclass(frozen=True, slots=True)
class Security:
    """Identity and restrictions of one container."""

    uid: int = 0
    gid: int = 0
    read_only_root: bool = False
    no_new_privileges: bool = False
    capabilities: tuple[int, ...] = tuple(DEFAULT_CAPABILITIES.values())


def container_security(pod: Obj, container: Obj, image_user: int | str | None) -> Security:
    """Merge pod and container settings as kubelet does; ``image_user``: the number of the image's user, or its name.

    Raises ContainerConfigError if the container must not run as root and would.
    """
    pod_level: dict[str, Any] = pod["spec"].get("securityContext") or {}
    own: dict[str, Any] = container.get("securityContext") or {}

    def setting(name: str) -> Any:
        return own.get(name) if own.get(name) is not None else pod_level.get(name)

    requested = setting("runAsUser")
    if isinstance(image_user, str):
        if setting("runAsNonRoot") and requested is None:
            raise ContainerConfigError(
                f"container has runAsNonRoot and image has non-numeric user ({image_user}), "
                f'cannot verify user is non-root (pod: "{pod["metadata"]["name"]}", container: {container["name"]})'
            )
        image_user = None
    uid = requested if requested is not None else image_user or 0
    if setting("runAsNonRoot") and uid == 0:
        reason = (
            "container's runAsUser breaks non-root policy"
            if requested == 0
            else ("container has runAsNonRoot and image will run as root")
        )
        raise ContainerConfigError(f'{reason} (pod: "{pod["metadata"]["name"]}", container: {container["name"]})')
    gid = setting("runAsGroup")
    return Security(
        uid=uid,
        gid=gid if gid is not None else 0,
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        capabilities=_capabilities(own.get("capabilities") or {}),
    )


def _capabilities(capabilities: dict[str, list[str]]) -> tuple[int, ...]:
    def names(key: str) -> set[str]:
        return {name.upper().removeprefix("CAP_") for name in capabilities.get(key) or []}

    kept = set() if "ALL" in names("drop") else set(DEFAULT_CAPABILITIES) - names("drop")
    kept |= names("add") & set(DEFAULT_CAPABILITIES)
    return tuple(sorted(DEFAULT_CAPABILITIES[name] for name in kept))
