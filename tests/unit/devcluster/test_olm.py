"""How OLM is started; tests/integration/olm shows that it then works."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml

from devcluster import ports, startup
from devcluster.cluster import LocalCluster
from devcluster.errors import SpecError
from devcluster.services import olm
from devcluster.spec import ClusterSpec
from tests.support.cluster import BARE

DEFINITIONS = Path(olm.__file__).parents[1] / "olm_crds"


def test_a_catalog_that_is_no_directory_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    cluster = LocalCluster(ClusterSpec(state_root=tmp_path, olm=True, olm_catalog=tmp_path / "absent", **BARE))
    with pytest.raises(SpecError, match=r"absent is not a directory: .*--olm-catalog"):
        cluster.start()
    assert not cluster.state_dir.exists()


def test_the_checkouts_catalog_is_served_by_default(tmp_path: Path) -> None:
    assert list(olm.catalog_directory(None).rglob("catalog.json"))
    assert olm.catalog_directory(tmp_path) == tmp_path


def test_a_cluster_without_olm_needs_nothing_of_it() -> None:
    without, with_olm = (startup._binary_names(ClusterSpec(olm=wanted, **BARE)) for wanted in (False, True))
    assert set(with_olm) - set(without) == {"olm-operator", "catalog-operator", "opm"}


def test_the_definitions_say_where_they_are_from_and_have_no_descriptions() -> None:
    files = sorted(DEFINITIONS.glob("*.yaml"))
    assert len(files) == 8
    for file in files:
        text = file.read_text()
        assert text.startswith("# github.com/operator-framework/operator-lifecycle-manager v0.28.0, deploy/chart/crds/")
        definition = yaml.load(text, yaml.CSafeLoader)
        assert definition["kind"] == "CustomResourceDefinition"
        assert definition["metadata"]["name"] == file.stem
        assert not any(isinstance(each, str) for each in descriptions(definition))


def descriptions(value: object) -> list[object]:
    if isinstance(value, dict):
        below = [description for item in value.values() for description in descriptions(item)]
        return below + ([value["description"]] if "description" in value else [])
    return [description for item in value for description in descriptions(item)] if isinstance(value, list) else []


def test_a_held_port_cannot_be_bound_on_all_addresses_until_released() -> None:
    (port,) = ports.allocate(["port"], {}).values()
    with ports.hold_port("127.200.255.254", port), socket.socket(socket.AF_INET6) as everywhere:
        everywhere.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        everywhere.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            everywhere.bind(("::", port))
        assert ports.is_free(port), "other addresses are nobody's loss"
    with ports.hold_port("127.200.255.254", port), ports.hold_port("127.200.255.254", port):
        pass
    assert ports.is_free(port, "127.200.255.254")
