"""Create, no-op preview, update, replacement, drift and destroy, with Pulumi's own Kubernetes SDK."""

from __future__ import annotations

import base64

import pytest

from tests.integration.pulumi_stand_ins.engine import Api, Engine

pytestmark = [pytest.mark.integration]

CANARY = "canary-7f3a91"

PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s
from pulumi import ResourceOptions

config = pulumi.Config()
space, text = config.require("space"), config.require("text")
provider = k8s.Provider("cluster", cluster_identifier="tests")
opts = ResourceOptions(provider=provider)

def meta(name, **more):
    return {"name": name, "namespace": space, **more}

ns = k8s.core.v1.Namespace("ns", metadata={"name": f"{space}-made"}, opts=opts)
inside = k8s.core.v1.ConfigMap("inside", metadata={"name": "inside", "namespace": ns.metadata["name"]},
    data={"a": "b"}, opts=ResourceOptions(provider=provider))
auto = k8s.core.v1.ConfigMap("auto", metadata={"namespace": space}, data={"text": text}, opts=opts)
fixed = k8s.core.v1.ConfigMap("fixed", metadata=meta("fixed"), data={"text": text}, opts=opts)
secret = k8s.core.v1.Secret("secret", metadata=meta("secret"), string_data={"token": config.require_secret("token")},
    opts=opts)
labels = {"app": "trial"}
deployment = k8s.apps.v1.Deployment("deployment",
    metadata=meta("deployment", annotations={"pulumi.com/skipAwait": "true"}),
    spec={
        "replicas": 0,
        "selector": {"match_labels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {"text": text}},
            "spec": {"host_network": False, "containers": [{
                "name": "c", "image": "i", "env": [{"name": "A", "value": ""}],
                "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 2}},
            }]},
        },
    }, opts=opts)
crd = k8s.apiextensions.v1.CustomResourceDefinition("crd",
    metadata={"name": f"things.{space}.example.com"},
    spec={"group": f"{space}.example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}, opts=opts)
k8s.apiextensions.CustomResource("thing", api_version=f"{space}.example.com/v1", kind="Thing", metadata=meta("thing"),
    spec={"configMap": auto.metadata["name"], "count": 3}, opts=ResourceOptions(provider=provider, depends_on=[crd]))
pulumi.export("configMap", auto.metadata["name"])
"""


@pytest.mark.slow
def test_a_stack_lives_from_create_to_destroy(engine: Engine, api: Api) -> None:
    space = engine.namespace
    (engine.program / "__main__.py").write_text(PROGRAM)
    for name, value in (("space", space), ("text", "one")):
        engine.run("config", "set", name, value)
    engine.run("config", "set", "--secret", "token", CANARY)
    maps = f"/api/v1/namespaces/{space}/configmaps"

    shown = engine.preview()
    assert "+ 10 to create" in shown.output
    assert api.get(f"{maps}/fixed") is None

    engine.up()
    first = {live_map["metadata"]["name"]: live_map for live_map in api.list(maps)}
    auto = next(name for name in first if name.startswith("auto-"))
    assert first["fixed"]["data"] == {"text": "one"}
    live_thing = api.get(f"/apis/{space}.example.com/v1/namespaces/{space}/things/thing")
    assert live_thing is not None
    assert live_thing["spec"] == {"configMap": auto, "count": 3}
    exported = engine.export()
    assert CANARY not in exported
    assert base64.b64encode(CANARY.encode()).decode() not in exported
    assert CANARY not in shown.output
    live_secret = api.get(f"/api/v1/namespaces/{space}/secrets/secret")
    assert live_secret is not None
    assert base64.b64decode(live_secret["data"]["token"]).decode() == CANARY

    engine.expect_no_changes()

    engine.run("config", "set", "text", "two")
    changed = engine.up()
    second = {live_map["metadata"]["name"]: live_map for live_map in api.list(maps)}
    new_auto = next(name for name in second if name.startswith("auto-"))
    assert new_auto != auto
    assert auto not in second
    assert second["fixed"]["metadata"]["uid"] != first["fixed"]["metadata"]["uid"]
    assert {second[name]["data"]["text"] for name in (new_auto, "fixed")} == {"two"}
    live_thing = api.get(f"/apis/{space}.example.com/v1/namespaces/{space}/things/thing")
    assert live_thing is not None
    assert live_thing["spec"]["configMap"] == new_auto
    deployment = api.get(f"/apis/apps/v1/namespaces/{space}/deployments/deployment")
    assert deployment is not None
    assert deployment["spec"]["template"]["metadata"]["annotations"] == {"text": "two"}
    assert "+-2 replaced" in changed.output

    path = f"/apis/apps/v1/namespaces/{space}/deployments/deployment"
    api.merge(path, {"spec": {"template": {"metadata": {"annotations": {"text": "drifted"}}}}}, manager="kubectl-edit")
    engine.refresh()
    assert "~ 1 updated\n    9 unchanged" in engine.up().output
    deployment = api.get(path)
    assert deployment is not None
    assert deployment["spec"]["template"]["metadata"]["annotations"] == {"text": "two"}

    api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{space}.example.com")
    ended = engine.destroy()
    assert engine.state() == {}
    assert api.list(maps) == [] or {live_map["metadata"]["name"] for live_map in api.list(maps)} == {"kube-root-ca.crt"}
    assert api.get(f"/api/v1/namespaces/{space}-made") is None
    order = [line.split()[2] for line in ended.output.splitlines() if " deleted (" in line]
    assert order.index("thing") < order.index("auto")
    assert order.index("inside") < order.index("ns")
