"""Runs the real Pulumi engine over the stand-ins, on programs given as plain manifests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from devcluster.cluster import LocalCluster
from tests.support.stand_ins import BOTH, link_stand_ins
from tests.support.waiting import PATIENCE_SECONDS

Manifest = dict[str, Any]

# Registers spec.json's resources. {"$secret": v} is a secret value, {"$name": r} the name that resource r got.
PROGRAM = """
import json
import pulumi
import pulumi_kubernetes as k8s

spec = json.load(open("spec.json"))
made = {}

def value(v):
    if isinstance(v, dict) and "$secret" in v:
        return pulumi.Output.secret(v["$secret"])
    if isinstance(v, dict) and "$name" in v:
        return made[v["$name"]].metadata["name"]
    if isinstance(v, dict):
        return {k: value(x) for k, x in v.items()}
    if isinstance(v, list):
        return [value(x) for x in v]
    return v

class KubeObject(pulumi.CustomResource):
    def __init__(self, name, manifest, opts):
        version = manifest["apiVersion"]
        group = version if "/" in version else f"core/{version}"
        super().__init__(f"kubernetes:{group}:{manifest['kind']}", name, value(manifest), opts)

arguments = {"cluster_identifier": "tests", **value(spec["provider"])}
provider = k8s.Provider("cluster", **arguments)
for resource in spec["resources"]:
    after = [made[name] for name in resource.get("after", [])]
    timeouts = pulumi.CustomTimeouts(**resource["timeouts"]) if "timeouts" in resource else None
    opts = pulumi.ResourceOptions(
        provider=provider, version="4.30.0", depends_on=after, custom_timeouts=timeouts,
        ignore_changes=resource.get("ignore"), import_=resource.get("import"),
    )
    made[resource["name"]] = KubeObject(resource["name"], resource["manifest"], opts)
"""


class Api:
    """The API server as an administrator sees it; not the code under test."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._server = cluster.api_server
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(cluster.layout.pki("ca.crt"))
        self._session.cert = (str(cluster.layout.pki("admin.crt")), str(cluster.layout.pki("admin.key")))

    def get(self, path: str) -> Manifest | None:
        answer = self._session.get(self._server + path)
        return None if answer.status_code == 404 else self._checked(answer)

    def list(self, path: str) -> list[Manifest]:
        items: list[Manifest] = (self.get(path) or {}).get("items", [])
        return items

    def post(self, path: str, body: Manifest) -> Manifest:
        return self._checked(self._session.post(self._server + path, json=body))

    def merge(self, path: str, body: Manifest, manager: str = "somebody-else") -> Manifest:
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._checked(
            self._session.patch(f"{self._server}{path}?fieldManager={manager}", data=json.dumps(body), headers=headers)
        )

    def apply(self, path: str, body: Manifest, manager: str) -> Manifest:
        """Server-side, taking every field."""
        query, headers = f"fieldManager={manager}&force=true", {"Content-Type": "application/apply-patch+yaml"}
        return self._checked(
            self._session.patch(f"{self._server}{path}?{query}", data=json.dumps(body), headers=headers)
        )

    def delete(self, path: str) -> None:
        self._session.delete(self._server + path, json={"propagationPolicy": "Background"})

    @staticmethod
    def _checked(answer: requests.Response) -> Manifest:
        assert answer.ok, answer.text
        body: Manifest = answer.json()
        return body


@dataclass(frozen=True)
class Result:
    code: int
    output: str
    seconds: float


class Engine:
    """One project with one stack, in a directory of its own with a file backend."""

    def __init__(self, directory: Path, cluster: LocalCluster | None, pulumi: Path, namespace: str) -> None:
        self.directory = directory
        self.namespace = namespace
        tools = directory / "bin"
        link_stand_ins(tools, BOTH)
        (tools / "pulumi").symlink_to(pulumi)
        for name in ("home", "backend", "program"):
            (directory / name).mkdir()
        self.program = directory / "program"
        (self.program / "Pulumi.yaml").write_text("name: trial\nruntime: {name: python, options: {virtualenv: none}}\n")
        (self.program / "__main__.py").write_text(PROGRAM)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PULUMI_", "KUBECONFIG"))}
        self.env = inherited | {
            "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.defpath]),
            "KUBECONFIG": str(cluster.kubeconfig) if cluster else str(directory / "no-kubeconfig"),
            "PULUMI_HOME": str(directory / "home"),
            "PULUMI_BACKEND_URL": f"file://{directory / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "1",
            "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "1",
        }
        self.run("stack", "init", "test")

    def write(self, *resources: Manifest, **provider: Any) -> None:
        (self.program / "spec.json").write_text(json.dumps({"resources": resources, "provider": provider}))

    def run(self, *arguments: str, fails: bool = False) -> Result:
        result = self.attempt(*arguments)
        assert (result.code != 0) == fails, result.output
        return result

    def attempt(self, *arguments: str) -> Result:
        started = time.monotonic()
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.program,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
        )
        return Result(done.returncode, done.stdout, time.monotonic() - started)

    def up(self, *arguments: str, fails: bool = False) -> Result:
        return self.run("up", "--yes", "--skip-preview", *arguments, fails=fails)

    def preview(self, *arguments: str, fails: bool = False) -> Result:
        return self.run("preview", *arguments, fails=fails)

    def expect_no_changes(self) -> Result:
        return self.preview("--expect-no-changes", "--diff")

    def preview_summary(self) -> dict[str, int]:
        """How many resources a preview would treat in which way."""
        shown = self.preview("--json").output
        summary: dict[str, int] = json.loads(shown[shown.index("{") :])["changeSummary"]
        return summary

    def refresh(self, fails: bool = False) -> Result:
        return self.run("refresh", "--yes", "--skip-preview", fails=fails)

    def destroy(self, fails: bool = False) -> Result:
        return self.run("destroy", "--yes", "--skip-preview", fails=fails)

    @contextmanager
    def upping(self) -> Iterator[subprocess.Popen[str]]:
        """An `up` that runs beside the test; its output is in the file `up.log`."""
        with (self.directory / "up.log").open("w") as log:
            process = subprocess.Popen(
                ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--color", "never"],
                cwd=self.program,
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
            try:
                yield process
                process.wait(PATIENCE_SECONDS)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    process.wait(PATIENCE_SECONDS)

    @property
    def log(self) -> str:
        return (self.directory / "up.log").read_text()

    def export(self) -> str:
        return subprocess.run(
            ["pulumi", "stack", "export"], cwd=self.program, env=self.env, capture_output=True, text=True, check=True
        ).stdout

    def state(self) -> dict[str, Manifest]:
        """Resources in state by name (the last part of the URN)."""
        resources = json.loads(self.export())["deployment"].get("resources") or []
        return {resource["urn"].rpartition("::")[2]: resource for resource in resources}


@contextmanager
def meanwhile(work: Callable[[], Any]) -> Iterator[None]:
    """Run `work` beside the block; what it raises fails the test."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive()
    if raised:
        raise raised[0]
