"""A stack with `shadow`: the scheduler compares each decision with the shadow's, moves no pod for it, and tells whoever
may read the pods; the trial goes with the setting."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.live_stack import CHECKOUT, NAME, NAMESPACE, Live, live_stack, places_a_pod
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
# A shadow that no node suits, so that it differs from the scheduler's own profile whatever the load is.
NOWHERE = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "no", "operator": "In", "values": ["such-node"]}]}]
    }
}
SHADOW = {
    "plugins": {"score": {"enabled": [{"name": "NodeAffinity", "weight": 2, "args": {"addedAffinity": NOWHERE}}]}}
}


@pytest.fixture
def live(cluster_state_root: Path, tmp_path: Path) -> Iterator[Live]:
    with live_stack(cluster_state_root, tmp_path, "shadow") as stack:
        yield stack


class Asker:
    """A ServiceAccount that may reach the scheduler's port, and asks with its own token."""

    def __init__(self, live: Live, name: str, directory: Path, *, views_default: bool) -> None:
        self.token = self._account(live, name, views_default)
        content = copy.deepcopy(yaml.safe_load(Path(live.environment["KUBECONFIG"]).read_text()))
        for user in content["users"]:
            user["user"] = {"token": self.token}
        self._kubeconfig = directory / f"{name}.kubeconfig"
        self._kubeconfig.write_text(yaml.safe_dump(content))

    @staticmethod
    def _account(live: Live, name: str, views_default: bool) -> str:
        metadata = {"metadata": {"name": name}}
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
        group = "rbac.authorization.k8s.io"
        live.core.create_namespaced_service_account("default", metadata)
        rules = [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
        ]
        live.rbac.create_namespaced_role(NAMESPACE, {**metadata, "rules": rules})
        own = {"apiGroup": group, "kind": "Role", "name": name}
        live.rbac.create_namespaced_role_binding(NAMESPACE, {**metadata, "roleRef": own, "subjects": subjects})
        if views_default:
            view = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
            live.rbac.create_namespaced_role_binding("default", {**metadata, "roleRef": view, "subjects": subjects})
        request = {"spec": {"expirationSeconds": 3600}}
        return str(live.core.create_namespaced_service_account_token(name, "default", request).status.token)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "secondary_scheduler.cli", "explain", "shadow", *arguments],
            cwd=CHECKOUT, env=os.environ | {"KUBECONFIG": str(self._kubeconfig)},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def differences(self) -> list[dict[str, Any]]:
        """Of pods in `default`; empty while there are none, or nobody answers."""
        answer = self.ask("-n", "default", "-o", "json")
        return list(json.loads(answer.stdout)["items"]) if answer.returncode == 0 else []


def test_a_stack_tries_a_profile_without_moving_a_pod_and_shows_what_differs_to_those_who_may_read_it(
    live: Live, tmp_path: Path
) -> None:
    live.up(shadow=SHADOW)
    viewer = Asker(live, "viewer", tmp_path, views_default=True)
    places_a_pod(live.core, NAME, name="compared")
    (item,) = eventually(viewer.differences, "a difference", diagnosis=lambda: viewer.ask("-n", "default"))
    node = live.core.read_namespaced_pod("compared", "default").spec.node_name
    assert (item["pod"], item["liveNode"], item["shadowNode"]) == ("default/compared", node, None)
    assert (item["schedulerName"], item["outcome"]) == (NAME, "onlyLivePlaced")

    everywhere = viewer.ask("-A")
    assert everywhere.returncode != 0
    assert "compared" not in everywhere.stdout
    stranger = Asker(live, "stranger", tmp_path, views_default=False)
    refused = stranger.ask("-n", "default")
    assert refused.returncode != 0
    assert "compared" not in refused.stdout + refused.stderr
    pods = live.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}").items
    logs = "".join(live.core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE) for pod in pods)
    assert viewer.token not in logs
    assert stranger.token not in logs

    live.nothing_to_change()
    del live.settings["shadow"]
    live.up()
    eventually(lambda: "no profile has a shadow" in viewer.ask("-n", "default").stderr, "the trial has ended")
