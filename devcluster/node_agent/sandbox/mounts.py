"""Tier ``mounts``: a root of its own, by namespaces and bind mounts; works as root and as an ordinary user.

The user namespace maps exactly one id, the one the container asks for, to the user who runs the agent. So the process
sees itself as runAsUser, without capabilities, while the host's Python environment below a private home stays readable.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devcluster.node_agent.sandbox.base import LaunchRequest, VolumeMount
from devcluster.node_agent.sandbox.root_plan import BindMount, plan_root

_PACKAGE_ROOT = Path(__file__).resolve().parents[3]


class MountSandbox:
    """See the module's description. ``masked`` are host paths no container may see."""

    tier = "mounts"

    def __init__(self, root: Path, masked: Sequence[Path]) -> None:
        """``root``: an empty directory that serves as mount point in every container's own namespace."""
        self._root = root
        self._masked = [str(path.resolve()) for path in masked if path.exists()]
        self._visible = _runtime_paths()

    def launch_spec(self, request: LaunchRequest) -> dict[str, Any]:
        """See ``base.Sandbox``."""
        mounts = [BindMount(mount.path, mount.source, mount.read_only) for mount in request.mounts]
        return {
            "role": "mounts",
            "root": str(self._root),
            "operations": plan_root(mounts, visible=(*self._visible, *request.host_paths), masked=self._masked),
            "readOnlyRoot": request.security.read_only_root,
            "hostname": request.hostname,
            "uid": request.security.uid,
            "gid": request.security.gid,
            **_process(request, (*request.host_command, *request.args)),
        }

    def exec_spec(
        self, request: LaunchRequest, host_command: Sequence[str], args: Sequence[str], pid: int
    ) -> dict[str, Any]:
        """See ``base.Sandbox``."""
        return {"role": "exec", "enter": pid, **_process(request, (*host_command, *args))}

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """Unchanged: every path exists as written."""
        return data


def _process(request: LaunchRequest, argv: Sequence[str]) -> dict[str, Any]:
    return {
        "argv": list(argv),
        "env": dict(request.env),
        "cwd": request.working_dir,
        "hardening": True,
        "noNewPrivs": request.security.no_new_privileges,
        "capabilities": list(request.security.capabilities),
    }


def _runtime_paths() -> tuple[str, ...]:
    """What our own commands need, wherever it was installed: the environment, its base and the checkout."""
    paths = {sys.prefix, sys.base_prefix, str(_PACKAGE_ROOT)}
    return tuple(sorted({path for path in (*paths, *(os.path.realpath(path) for path in paths)) if path != "/"}))
