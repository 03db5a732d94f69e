"""Failures on a cluster: existing objects, conflicts, stuck deletions, objects that do not become ready."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.integration.pulumi_stand_ins.engine import Api, Engine, Manifest, meanwhile
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def config_map(name: str, namespace: str, data: dict[str, Any], **metadata: Any) -> Manifest:
    named = {"name": name, "namespace": namespace, **metadata}
    return {"name": name, "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": data}}


def deployment(name: str, namespace: str, **annotations: str) -> Manifest:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.com/absent"}]},
            },
        },
    }


def set_pod(api: Api, namespace: str, name: str, *, ready: bool) -> None:
    """Stand in for a kubelet: report the Deployment's pod running, or its image not to be had."""

    def pod() -> Manifest | None:
        pods = api.list(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}")
        return pods[0] if pods else None

    path = f"/api/v1/namespaces/{namespace}/pods/{eventually(pod)['metadata']['name']}/status"
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "example.com/absent"'}}
    ended = {"terminated": {"exitCode": 7, "reason": "Error", "message": "no licence"}}
    container = {"name": "main", "image": "i", "imageID": "", "restartCount": 1, "ready": ready, "lastState": ended}
    container["state"] = {"running": {}} if ready else waiting
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    phase = "Running" if ready else "Pending"
    api.merge(path, {"status": {"phase": phase, "conditions": [condition], "containerStatuses": [container]}})


@pytest.mark.slow
def test_an_existing_object_is_only_adopted_on_request(engine: Engine, api: Api) -> None:
    space = engine.namespace
    maps = f"/api/v1/namespaces/{space}/configmaps"
    api.post(maps, {"metadata": {"name": "theirs"}, "data": {"a": "theirs"}})
    engine.write(config_map("theirs", space, {"a": "ours"}))
    refused = engine.up(fails=True)
    assert f"ConfigMap {space}/theirs already exists on the cluster; import it" in refused.output
    assert "theirs" not in engine.state()
    assert (api.get(f"{maps}/theirs") or {})["data"] == {"a": "theirs"}

    engine.write(config_map("theirs", space, {"a": "theirs"}) | {"import": f"{space}/theirs"})
    engine.up()
    engine.run("state", "delete", "--yes", str(engine.state()["theirs"]["urn"]))

    adopted = config_map("theirs", space, {"a": "ours"}, annotations={"pulumi.com/patchForce": "true"})
    engine.write(adopted, upsert_existing_objects=True)
    engine.up()
    assert (api.get(f"{maps}/theirs") or {})["data"] == {"a": "ours"}
    engine.expect_no_changes()


@pytest.mark.slow
def test_a_field_owned_by_another_manager_is_only_taken_by_force(engine: Engine, api: Api) -> None:
    space = engine.namespace
    path = f"/api/v1/namespaces/{space}/configmaps/shared"
    mutable = {"enable_config_map_mutable": True}
    engine.write(config_map("shared", space, {"a": "1", "b": "1"}), **mutable)
    engine.up()
    uid = (api.get(path) or {})["metadata"]["uid"]
    api.merge(path, {"data": {"a": "autoscaled"}}, manager="autoscaler")

    engine.write(config_map("shared", space, {"a": "2", "b": "2"}), **mutable)
    engine.preview()  # of an object that was never updated, a preview takes everything; the update does not
    refusal = f'"{space}/shared" failed to fully initialize or become live: server-side apply field conflict detected'
    refused = engine.up(fails=True).output
    assert refusal in refused
    assert 'Apply failed with 1 conflict: conflict with "autoscaler" using v1: .data.a' in refused
    assert (api.get(path) or {})["data"] == {"a": "autoscaled", "b": "1"}
    assert engine.state()["shared"]["initErrors"], "a refused update is kept"
    assert refusal in engine.up(fails=True).output

    ignoring = {**config_map("shared", space, {"a": "2", "b": "2"}), "ignore": ["data.a"]}
    engine.write(ignoring, **mutable)
    engine.up()
    assert (api.get(path) or {})["data"] == {"a": "autoscaled", "b": "2"}
    engine.write(config_map("shared", space, {"a": "3", "b": "2"}), **mutable)
    assert refusal in engine.preview(fails=True).output, "once updated, its preview takes nothing"

    engine.write(config_map("shared", space, {"a": "3"}, annotations={"pulumi.com/patchForce": "true"}), **mutable)
    engine.up()
    assert (api.get(path) or {})["data"] == {"a": "3"}
    assert (api.get(path) or {})["metadata"]["uid"] == uid


def test_a_finalizer_holds_the_deletion_until_it_is_released(engine: Engine, api: Api) -> None:
    space = engine.namespace
    path = f"/api/v1/namespaces/{space}/configmaps/held"
    annotations = {"pulumi.com/timeoutSeconds": "1"}
    engine.write(config_map("held", space, {}, finalizers=["example.com/hold"], annotations=annotations))
    engine.up()
    stuck = engine.destroy(fails=True)
    assert "finalizers might be preventing deletion (example.com/hold)" in stuck.output
    assert "held" in engine.state()
    api.merge(path, {"metadata": {"finalizers": None}})
    engine.destroy()
    assert engine.state() == {}
    assert api.get(path) is None


def test_a_deployment_that_cannot_start_is_kept_with_the_reason_and_recovers(engine: Engine, api: Api) -> None:
    space = engine.namespace
    engine.write(
        {"name": "app", "manifest": deployment("app", space), "timeouts": {"create": "4s", "update": "15s"}},
        config_map("after", space, {}) | {"after": ["app"]},
    )
    with meanwhile(lambda: set_pod(api, space, "app", ready=False)):
        failed = engine.up(fails=True)
    assert f"Deployment {space}/app was created but is not ready: timed out after 4 s" in failed.output
    assert 'container "main": ImagePullBackOff: Back-off pulling image "example.com/absent"' in failed.output
    assert "last exit code 7 (Error: no licence)" in failed.output
    assert engine.state()["app"]["initErrors"]
    assert "after" not in engine.state()

    with meanwhile(lambda: set_pod(api, space, "app", ready=True)):
        engine.up()
    assert "initErrors" not in engine.state()["app"]
    assert api.get(f"/api/v1/namespaces/{space}/configmaps/after") is not None


def test_wait_for_holds_the_next_resource_until_the_status_says_so(engine: Engine, api: Api) -> None:
    space = engine.namespace
    claims = '["condition=Done", "jsonpath={.status.containerStatuses[?(@.name==\\"main\\")].ready}=true"]'
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "awaited",
            "namespace": space,
            "labels": {"app": "awaited"},
            "annotations": {"pulumi.com/waitFor": claims, "pulumi.com/timeoutSeconds": "2"},
        },
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    following = config_map("after", space, {}) | {"after": ["awaited"]}
    engine.write({"name": "awaited", "manifest": pod}, following)
    refused = engine.up(fails=True)
    assert "timed out after 2 s" in refused.output
    assert 'Waiting for condition "Done" to be "True"; it is not set yet' in refused.output
    assert "after" not in engine.state()

    def finish() -> None:
        set_pod(api, space, "awaited", ready=True)
        condition = {"type": "Done", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        api.merge(f"/api/v1/namespaces/{space}/pods/awaited/status", {"status": {"conditions": [condition]}})

    engine.write({"name": "awaited", "manifest": pod, "timeouts": {"update": "20s"}}, following)
    with meanwhile(finish):
        engine.up()
    assert "after" in engine.state()


def test_an_interrupt_ends_the_wait_at_once_and_keeps_created_objects(engine: Engine, api: Api) -> None:
    space = engine.namespace
    engine.write({"name": "slow", "manifest": deployment("slow", space)})
    with engine.upping() as up:
        eventually(lambda: "Waiting for the rollout" in engine.log)
        up.send_signal(signal.SIGINT)
        # The Deployment never becomes ready: without the interrupt the wait lasts ten minutes.
        up.wait(PATIENCE_SECONDS)
    assert up.returncode != 0
    assert "interrupted by the user" in engine.log
    assert "Traceback" not in engine.log
    assert engine.state()["slow"]["initErrors"]
    engine.destroy()
    assert api.get(f"/apis/apps/v1/namespaces/{space}/deployments/slow") is None
