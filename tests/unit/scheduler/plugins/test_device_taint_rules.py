"""DeviceTaintRules: an administrator's taints count beside those of slices, from 1.37 on."""

import pytest

from scheduler.framework import Hint
from tests.unit.scheduler.core.builders import pod
from tests.unit.scheduler.plugins.devices import (
    DRIVER,
    Server,
    Try,
    claim,
    device_class,
    devices_of,
    exactly,
    first_available,
    using,
)
from tests.unit.scheduler.plugins.storage import made

CANNOT = {"a": "cannot allocate all claims"}


def rule(name="rule", effect="NoSchedule", **selector):
    taint = {"key": "broken", "value": "yes", "effect": effect}
    return made("DeviceTaintRule", name, spec={"deviceSelector": selector, "taint": taint})


def on(version, *objects, requests=()):
    server = Server(device_class(), devices_of("a", "g0"), claim("gpu", *(requests or [exactly()])), *objects)
    server.plugin = server.plugin_for("test", version)
    return server


def rejections(server):
    return Try(server, pod("new", **using("gpu"))).rejections()


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, CANNOT),
        ({"driver": DRIVER}, CANNOT),
        ({"driver": "other.example.com"}, {}),
        ({"pool": "a"}, CANNOT),
        ({"pool": "b"}, {}),
        ({"device": "g0"}, CANNOT),
        ({"device": "g1"}, {}),
        ({"driver": DRIVER, "pool": "a", "device": "g0"}, CANNOT),
        ({"driver": DRIVER, "pool": "a", "device": "g1"}, {}),
    ],
)
# Counted in a column, and searched for.
@pytest.mark.parametrize("request_", [exactly(), first_available("r", exactly("one"))])
def test_a_rule_taints_the_devices_that_it_selects(selector, expected, request_):
    assert rejections(on("1.37", rule(**selector), requests=(request_,))) == expected


def test_a_rule_without_selector_is_for_no_device():
    unselecting = made("DeviceTaintRule", "rule", spec={"taint": {"key": "broken", "effect": "NoSchedule"}})
    assert rejections(on("1.37", unselecting)) == {}


@pytest.mark.parametrize(("effect", "expected"), [("NoSchedule", CANNOT), ("NoExecute", CANNOT), ("None", {})])
def test_a_rule_without_effect_keeps_nobody_off(effect, expected):
    assert rejections(on("1.37", rule(effect=effect))) == expected


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
def test_older_versions_do_not_follow_rules(version):
    assert rejections(on(version, rule())) == {}


def test_profiles_of_two_versions_share_the_devices_and_differ():
    server = on("1.37", rule())
    older = server.plugin_for("older", "1.36")
    for _ in range(2):
        assert rejections(server) == CANNOT
        assert Try(server, pod("new", **using("gpu")), older).rejections() == {}


def test_a_toleration_of_the_request_counts():
    tolerated = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    assert rejections(on("1.37", rule(), requests=(tolerated,))) == {}


def test_rules_that_come_change_and_go_are_followed():
    server = on("1.37")
    objects = server.state.objects
    assert rejections(server) == {}
    objects.upsert("DeviceTaintRule", rule(device="g0"))
    assert rejections(server) == CANNOT
    objects.upsert("DeviceTaintRule", rule(device="g1"))
    assert rejections(server) == {}
    objects.upsert("DeviceTaintRule", rule("second"))
    assert rejections(server) == CANNOT
    # A new slice has them, too.
    objects.upsert("ResourceSlice", devices_of("a", "g1", pool={"generation": 2}))
    assert rejections(server) == CANNOT
    objects.remove("DeviceTaintRule", "", "second")
    assert rejections(server) == CANNOT
    objects.remove("DeviceTaintRule", "", "rule")
    assert rejections(server) == {}


def test_changes_of_rules_wake_pods_from_1_37_on():
    def hint(version, old, new):
        server = on(version)
        for each in server.plugin.events_to_register():
            if each.resource == "DeviceTaintRule":
                return each.hint(pod("new", **using("gpu")), old, new)
        return None

    assert hint("1.36", rule(), None) is None
    assert hint("1.37", rule(), None) is Hint.QUEUE
    assert hint("1.37", rule(), rule(device="g1")) is Hint.QUEUE
    assert hint("1.37", rule(), rule()) is Hint.SKIP


def test_the_end_of_an_allocated_claim_wakes_pods_from_1_37_on():
    allocated = claim("other", status={"allocation": {"devices": {"results": []}}})
    for version, expected in (("1.36", Hint.SKIP), ("1.37", Hint.QUEUE)):
        server = on(version)
        (each,) = (each for each in server.plugin.events_to_register() if each.resource == "ResourceClaim")
        assert each.hint(pod("new", **using("gpu")), allocated, None) is expected
        assert each.hint(pod("new", **using("gpu")), claim("other"), None) is Hint.SKIP
