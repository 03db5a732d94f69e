"""Tier ``directory``: no namespaces; the volumes stand in the agent's directory and paths to them are rewritten.

Mount paths are replaced in arguments, env values and the text of ConfigMap files. What a program has compiled in is not
reached, above all ``/var/run/secrets/kubernetes.io/serviceaccount``; so a kubeconfig over the token's files is
generated and named by KUBECONFIG. Identity, read-only root and capabilities have no effect: the process is the
agent's user.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devcluster.node_agent.sandbox.base import LaunchRequest, VolumeMount

METRIC_CREDENTIALS = "/var/run/secrets/secondary-scheduler/metrics"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class PathRewriter:
    """Replaces container paths by host paths, whole path components only, the longest mount first."""

    def __init__(self, mounts: Sequence[VolumeMount]) -> None:
        self._targets: Mapping[str, str] = {mount.path.rstrip("/"): mount.source for mount in mounts}
        longest = sorted(self._targets, key=len, reverse=True)
        choices = "|".join(re.escape(path) for path in longest if path)
        # A path begins where no path character stands before it, and ends at a slash or a character foreign to names.
        self._pattern = re.compile(rf"(?<![\w./-])(?:{choices})(?=/|[^\w.-]|$)") if choices else None

    def text(self, text: str) -> str:
        """Rewrite one string."""
        return self._pattern.sub(lambda match: self._targets[match.group(0)], text) if self._pattern else text


class DirectorySandbox:
    """See the module's description."""

    tier = "directory"

    def __init__(self, directory: Path) -> None:
        """``directory``: where generated kubeconfigs are kept."""
        self._directory = directory

    def launch_spec(self, request: LaunchRequest) -> dict[str, Any]:
        """See ``base.Sandbox``."""
        return {"role": "directory", **self._process(request, request.host_command, request.args)}

    def exec_spec(
        self, request: LaunchRequest, host_command: Sequence[str], args: Sequence[str], pid: int
    ) -> dict[str, Any]:
        """See ``base.Sandbox``."""
        return {"role": "exec", "enter": 0, **self._process(request, host_command, args)}

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """Rewritten if it is text."""
        try:
            return PathRewriter(mounts).text(data.decode()).encode()
        except UnicodeDecodeError:
            return data

    def _process(self, request: LaunchRequest, host_command: Sequence[str], args: Sequence[str]) -> dict[str, Any]:
        rewriter = PathRewriter(request.mounts)
        env = {name: rewriter.text(value) for name, value in request.env.items()}
        kubeconfig = self._kubeconfig(request)
        if kubeconfig:
            env.setdefault("KUBECONFIG", kubeconfig)
        for mount in request.mounts:
            if mount.path.rstrip("/") == METRIC_CREDENTIALS:
                # The scheduler has this path compiled in, too.
                env.setdefault("METRIC_CREDENTIALS_DIRECTORY", mount.source)
        cwd = rewriter.text(request.working_dir)
        return {
            "argv": [*host_command, *(rewriter.text(argument) for argument in args)],
            "env": env,
            "cwd": cwd if Path(cwd).is_dir() else "/",
            "hardening": False,
        }

    def _kubeconfig(self, request: LaunchRequest) -> str:
        account = next((mount.source for mount in request.mounts if mount.path.rstrip("/") == SERVICE_ACCOUNT), None)
        host, port = request.env.get("KUBERNETES_SERVICE_HOST"), request.env.get("KUBERNETES_SERVICE_PORT")
        if account is None or not host:
            return ""
        path = self._directory / f"{Path(account).parents[1].name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not a secret: the token stays in its own file, which is renewed.
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: pod\n"
            f"clusters: [{{name: pod, cluster: {{server: 'https://{host}:{port}', "
            f"certificate-authority: '{account}/ca.crt'}}}}]\n"
            f"users: [{{name: pod, user: {{tokenFile: '{account}/token'}}}}]\n"
            "contexts: [{name: pod, context: {cluster: pod, user: pod}}]\n"
        )
        return str(path)
