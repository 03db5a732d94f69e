"""What somebody changed by hand, under the real engine: row by row what the official provider was seen to do.

The rows were tried with the official plugins (engine 3.220, provider 4.30), which are not at hand here; the stand-in
answers as they did, so that tests of the program prove what users will see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.integration.pulumi_stand_ins.engine import Api, Engine, Manifest

pytestmark = [pytest.mark.integration]


def cluster_role(name: str, *verbs: str, forced: bool = False) -> Manifest:
    annotations = {"annotations": {"pulumi.com/patchForce": "true"}} if forced else {}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]} for verb in verbs]
    # With a label, which its creator still owns when another manager has taken the rules: else it owns nothing.
    metadata = {"name": name, "labels": {"app": "drift"}, **annotations}
    manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": rules,
    }
    return {"name": "role", "manifest": manifest}


def changed_rules(verbs: list[str]) -> Manifest:
    return {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]} for verb in verbs]}


@pytest.fixture
def role(engine: Engine) -> tuple[str, str]:
    """Name and path of a ClusterRole that the stack made and updated once."""
    name = f"drift-{engine.namespace}"
    engine.write(cluster_role(name, "list"))
    engine.up()
    engine.write(cluster_role(name, "get"))
    engine.up()
    return name, f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"


@pytest.mark.slow
def test_what_kubectl_changed_fails_the_preview_and_is_put_back_without_one(
    engine: Engine, api: Api, role: tuple[str, str]
) -> None:
    _, path = role
    api.merge(path, changed_rules(["delete"]), manager="kubectl-patch")
    assert 'conflict with "kubectl-patch"' in engine.preview("--refresh", fails=True).output
    assert 'conflict with "kubectl-patch"' in engine.run("up", "--refresh", "--yes", fails=True).output
    assert "unchanged" in engine.run("up", "--yes").output, "a failed preview stores nothing: a plain up is blind"
    assert (api.get(path) or {})["rules"] == changed_rules(["delete"])["rules"]
    engine.up("--refresh")
    assert (api.get(path) or {})["rules"] == changed_rules(["get"])["rules"]
    engine.destroy()


@pytest.mark.slow
def test_what_another_manager_changed_stays_a_conflict_until_it_is_forced(
    engine: Engine, api: Api, role: tuple[str, str]
) -> None:
    name, path = role
    api.merge(path, changed_rules(["delete"]), manager="Mozilla")
    for _ in range(2):  # the second time without a refresh: the refused update is kept
        assert 'conflict with "Mozilla"' in engine.up("--refresh", fails=True).output
    assert 'conflict with "Mozilla"' in engine.up(fails=True).output
    engine.write(cluster_role(name, "get", forced=True))
    engine.run("up", "--refresh", "--yes")
    assert (api.get(path) or {})["rules"] == changed_rules(["get"])["rules"]
    engine.destroy()


@pytest.mark.slow
def test_what_was_appended_to_a_list_is_not_seen(engine: Engine, api: Api, role: tuple[str, str]) -> None:
    name, path = role
    api.merge(path, changed_rules(["get", "delete"]), manager="kubectl-patch")
    engine.run("preview", "--refresh", "--expect-no-changes")
    assert "unchanged" in engine.run("up", "--refresh", "--yes").output
    assert (api.get(path) or {})["rules"] == changed_rules(["get", "delete"])["rules"]
    engine.write(cluster_role(name, "list"))
    engine.up("--refresh")
    assert (api.get(path) or {})["rules"] == changed_rules(["list"])["rules"], "the next update takes it off"
    engine.destroy()


COMMANDS = (
    ("preview", "--refresh"),
    ("up", "--refresh", "--yes"),
    ("up", "--yes"),
    ("up", "--refresh", "--yes", "--skip-preview"),
)
"""In this order, one after the other, until the drift is put back."""
REFUSED, BLIND = 255, 0


@dataclass(frozen=True)
class Row:
    """Who changed it and how, whether the object was updated since it was made, and how the commands end; the last one
    says whether the drift is put back in the end."""

    manager: str
    change: Callable[[Api, str, str], None]
    updated: bool
    codes: tuple[int, ...]
    put_back: bool


def patched(api: Api, path: str, manager: str) -> None:
    api.merge(path, changed_rules(["delete"]), manager=manager)


def applied(api: Api, path: str, manager: str) -> None:
    """Server-side, with --force-conflicts."""
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    api.apply(path, {**kind, **changed_rules(["delete"])}, manager=manager)


ROWS = {
    "kubectl patch, fresh": Row("kubectl-patch", patched, False, (0, 0), True),
    "kubectl edit, updated": Row("kubectl-edit", patched, True, (REFUSED, REFUSED, BLIND, 0), True),
    "kubectl apply, updated": Row("kubectl", applied, True, (REFUSED, REFUSED, BLIND, 0), True),
    "console, fresh": Row("Mozilla", patched, False, (0, REFUSED, REFUSED, REFUSED), False),
    "console, updated": Row("Mozilla", patched, True, (REFUSED, REFUSED, BLIND, REFUSED), False),
    "argocd, updated": Row("argocd-controller", applied, True, (REFUSED, REFUSED, BLIND, REFUSED), False),
}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_changed_field_ends_as_under_the_official_provider(engine: Engine, api: Api, row: Row) -> None:
    name = f"drift-{engine.namespace}"
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"
    for verb in ("list", "get") if row.updated else ("get",):
        engine.write(cluster_role(name, verb))
        engine.up()
    row.change(api, path, row.manager)
    ends = []
    for command in COMMANDS[: len(row.codes)]:
        result = engine.attempt(*command)
        ends.append(result.code)
        if result.code:
            assert f'conflict with "{row.manager}"' in result.output, command
    assert tuple(ends) == row.codes
    verb = "get" if row.put_back else "delete"
    assert (api.get(path) or {})["rules"] == changed_rules([verb])["rules"]
    engine.write(cluster_role(name, "get", forced=True))
    engine.destroy()


@pytest.mark.slow
@pytest.mark.parametrize("updated", [False, True], ids=["fresh", "updated"])
def test_kubectl_scale_is_a_conflict_as_it_is_no_manager_of_the_object_itself(
    engine: Engine, api: Api, updated: bool
) -> None:
    path = f"/apis/apps/v1/namespaces/{engine.namespace}/deployments/scaled"
    for replicas in (1, 0) if updated else (0,):
        engine.write(idle_deployment(engine.namespace, replicas))
        engine.up()
    api.merge(f"{path}/scale", {"spec": {"replicas": 3}}, manager="kubectl")
    codes = tuple(engine.attempt(*command).code for command in COMMANDS)
    assert codes == ((REFUSED, REFUSED, BLIND, REFUSED) if updated else (0, REFUSED, REFUSED, REFUSED))
    assert (api.get(path) or {})["spec"]["replicas"] == 3


def idle_deployment(namespace: str, replicas: int) -> Manifest:
    labels = {"app": "scaled"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/c"}]}}
    metadata = {"name": "scaled", "namespace": namespace, "annotations": {"pulumi.com/skipAwait": "true"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    return {"name": "scaled", "manifest": manifest}


@pytest.mark.slow
def test_a_deleted_object_is_made_again_after_a_refresh_only(engine: Engine, api: Api, role: tuple[str, str]) -> None:
    _, path = role
    api.delete(path)
    assert "unchanged" in engine.run("up", "--yes").output
    assert api.get(path) is None, "a plain up is blind"
    assert "create" in engine.preview("--refresh").output
    engine.run("up", "--refresh", "--yes")
    assert (api.get(path) or {})["rules"] == changed_rules(["get"])["rules"]
    engine.destroy()


@pytest.mark.slow
def test_a_field_that_the_program_does_not_set_is_not_seen_and_the_next_update_wipes_kubectls(
    engine: Engine, api: Api, role: tuple[str, str]
) -> None:
    name, path = role
    api.merge(path, {"metadata": {"labels": {"by": "kubectl"}}}, manager="kubectl-label")
    api.merge(path, {"metadata": {"labels": {"of": "console"}}}, manager="Mozilla")
    engine.run("preview", "--refresh", "--expect-no-changes")
    engine.write(cluster_role(name, "list"))
    engine.up("--refresh")
    labels = (api.get(path) or {})["metadata"].get("labels", {})
    assert ("by" in labels, labels.get("of")) == (False, "console")
    engine.destroy()


@pytest.mark.slow
def test_a_change_of_a_field_that_kubectl_has_edited_fails_in_the_preview_and_works_without_one(
    engine: Engine, api: Api, role: tuple[str, str]
) -> None:
    name, path = role
    api.merge(path, changed_rules(["delete"]), manager="kubectl-patch")
    engine.write(cluster_role(name, "watch"))
    assert 'conflict with "kubectl-patch"' in engine.run("up", "--yes", fails=True).output
    engine.up()
    assert (api.get(path) or {})["rules"] == changed_rules(["watch"])["rules"]
    engine.destroy()
