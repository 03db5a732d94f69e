"""The policies as v1, on an API server that evaluates them without any flag."""

from __future__ import annotations

import json

import pytest

from devcluster.releases import CONTROL_PLANES
from tests.integration.opt_in.support import LABEL, SCHEDULER, Server, plan
from tests.support.cluster import BARE, MakeCluster
from tests.support.minors import built_or_skip

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.parametrize("minor", [minor for name in CONTROL_PLANES if (minor := int(name.partition(".")[2])) >= 36])
def test_a_stable_release_needs_no_flag(make_cluster: MakeCluster, minor: int) -> None:
    name = f"1.{minor}"
    built_or_skip(name, "kube-apiserver", "kube-controller-manager")
    server = Server(make_cluster(kubernetes=name, **BARE), minor)
    try:
        server.install(plan(minor))
        namespace = server.namespace(**{LABEL: "true"})
        code, output = server.cli("check", "-n", namespace, "-o", "json", "--wait", "60")
        document = json.loads(output)
        assert (code, document["reason"]) == (0, "moved"), output
        assert document["served"] == "v1"
        assert document["pods"][0]["schedulerName"] == SCHEDULER
    finally:
        server.close()
