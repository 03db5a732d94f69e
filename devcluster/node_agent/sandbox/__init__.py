"""Where a container's process runs. One module per tier behind ``base.Sandbox``; ``launcher`` is what they start.

``mounts`` gives the process a root of its own by user, mount, pid, ipc and uts namespaces; ``directory`` rewrites paths
and needs nothing but processes. ``choose`` picks the best that works on this host, by trying it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devcluster.node_agent.sandbox.base import (
    LaunchRequest as LaunchRequest,
    Sandbox as Sandbox,
    StartError as StartError,
    VolumeMount as VolumeMount,
)
from devcluster.node_agent.sandbox.directory import DirectorySandbox
from devcluster.node_agent.sandbox.mounts import MountSandbox
from devcluster.node_agent.security import Security

LAUNCHER = Path(__file__).with_name("launcher.py")
TIERS = ("auto", "mounts", "directory")
_TRIAL_SECONDS = 20


class SandboxUnavailableError(RuntimeError):
    """The tier that was asked for does not work on this host."""


def choose(tier: str, state_dir: Path, masked: Sequence[Path]) -> Sandbox:
    """The sandbox of a tier; ``auto`` tries ``mounts`` and falls back to ``directory``.

    Raises SandboxUnavailableError when ``mounts`` is demanded and does not work, with the kernel's reason.
    """
    if tier != "directory":
        root = state_dir / "root"
        root.mkdir(parents=True, exist_ok=True)
        sandbox = MountSandbox(root, masked)
        problem = _try_sandbox(sandbox)
        if not problem:
            return sandbox
        if tier == "mounts":
            raise SandboxUnavailableError(f"the sandbox tier 'mounts' does not work here: {problem}")
    return DirectorySandbox(state_dir / "kubeconfigs")


def _try_sandbox(sandbox: Sandbox) -> str:
    """Start Python as an ordinary user in the sandbox, with a read-only root; return what went wrong, else ''."""
    request = LaunchRequest(
        host_command=(sys.executable, "-I", "-S", "-c", "import os, sys; sys.exit(os.getuid() != 65532)"),
        args=(),
        env={},
        working_dir="/",
        mounts=(),
        security=Security(uid=65532, gid=65532, read_only_root=True, no_new_privileges=True, capabilities=()),
        hostname="trial",
    )
    read_end, write_end = os.pipe()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as spec:
        document: dict[str, Any] = {**sandbox.launch_spec(request), "statusFd": write_end, "agentPid": os.getpid()}
        spec.write(json.dumps(document))
        spec.flush()
        command = [sys.executable, "-I", "-S", str(LAUNCHER), spec.name]
        try:
            done = subprocess.run(
                command, pass_fds=(write_end,), capture_output=True, text=True, timeout=_TRIAL_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            os.close(read_end)
            return str(error)
        finally:
            os.close(write_end)
    with os.fdopen(read_end) as stream:
        messages = [json.loads(line) for line in stream]
    if done.returncode == 0:
        return ""
    reported = next((message["error"] for message in messages if "error" in message), "")
    return reported or (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
