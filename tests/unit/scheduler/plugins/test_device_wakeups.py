"""A claim's event is shown to the pods that it concerns, and no other would be helped by it."""

import copy
import itertools

import msgspec
import pytest

import scheduler.plugins.dynamicresources as plugin_module
from scheduler.catalog import ActionType
from scheduler.framework import NODE_ADD, ClusterEvent, Hint
from scheduler.plugins import dynamicresources as hints_module
from scheduler.plugins.dynamicresources.results import pod_claims
from scheduler.state import SchedulingQueue
from tests.support.faketime import ManualClocks
from tests.unit.scheduler.core.builders import container, node, pod
from tests.unit.scheduler.plugins.devices import Server, claim, using

OF_TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}


def owned(number):
    """Metadata of a claim that a pod owns."""
    owner = {"kind": "Pod", "name": f"p{number}", "uid": f"uid-p{number}", "controller": True}
    return {"metadata": {"ownerReferences": [owner]}}


def generated(name):
    return {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}}


STATES = [
    None,
    {},
    owned(0),
    {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    {"status": {"allocation": {"devices": {}}}},
    {"metadata": {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}, **owned(0)["metadata"]}},
]


@pytest.mark.parametrize("name", ["gpu", "p0-gpu", "other"])
@pytest.mark.parametrize("kubernetes", ["1.34", "1.37"])
def test_a_claim_that_does_not_concern_a_pod_would_not_help_it(kubernetes, name):
    waiting = [
        pod("p0", **using("gpu")),
        pod("p0", **using("gpu", "absent")),
        pod("p0", **OF_TEMPLATE),
        pod("p0", **OF_TEMPLATE, **generated("p0-gpu")),
        pod("p0", container(requests={"example.com/gpu": "1"})),
    ]
    spared = 0
    for before, after in itertools.permutations(STATES, 2):
        old, new = (None if state is None else claim(name, **copy.deepcopy(state)) for state in (before, after))
        server = Server(*(() if old is None else (old,)))
        plugin = server.plugin_for("p", kubernetes)
        (registration,) = (each for each in plugin.events_to_register() if each.resource == "ResourceClaim")
        gates = [plugin.pre_enqueue(each).is_success for each in waiting]
        if new is None:
            server.state.objects.remove("ResourceClaim", "default", name)
        else:
            server.state.objects.upsert("ResourceClaim", new)
        for each, was_open in zip(waiting, gates, strict=True):
            concern = registration.concern
            named = not set(concern.awaited(each)).isdisjoint(concern.named(old, new))
            if not named and not was_open:
                assert not plugin.pre_enqueue(each).is_success
                spared += 1
            elif not named and not concern.helps_all(old, new):
                assert registration.hint(each, old, new) is Hint.SKIP
                spared += 1
    assert spared > 60


def test_pods_of_templates_are_asked_about_their_own_claims_and_no_others(monkeypatch):
    """Claim by claim, of pods that name them already, and of pods whose status comes last."""
    server, clock, looks = Server(), ManualClocks(), []
    monkeypatch.setattr(plugin_module, "pod_claims", lambda *args: looks.append(args) or pod_claims(*args))
    monkeypatch.setattr(hints_module, "pod_claims", lambda *args: looks.append(args) or pod_claims(*args))
    registrations = {"test": {"DynamicResources": tuple(server.plugin.events_to_register())}}

    def gate(new):
        return server.plugin.pre_enqueue(new).with_plugin("DynamicResources")

    queue = SchedulingQueue(clocks=clock.clocks, sort_key=lambda each, at: at, pre_enqueue=gate, hints=registrations)

    count = 200
    for number in range(count):
        queue.add(pod(f"p{number}", **OF_TEMPLATE, **(generated(f"c{number}") if number % 2 == 0 else {})))
    assert queue.counts()["gated"] == count
    looks.clear()
    queue.on_event(NODE_ADD, None, node("n"))
    assert looks == []
    for number in range(count):
        new_claim = claim(f"c{number}", **owned(number))
        server.state.objects.upsert("ResourceClaim", new_claim)
        queue.on_event(ClusterEvent("ResourceClaim", ActionType.ADD), None, new_claim)
        assert queue.queue_of(f"uid-p{number}") == ("active" if number % 2 == 0 else "gated")
    for number in range(1, count, 2):
        now = pod(f"p{number}", **OF_TEMPLATE, **generated(f"c{number}"))
        queue.update(pod(f"p{number}", **OF_TEMPLATE), msgspec.structs.replace(now, resource_version="2"))
    assert queue.counts()["active"] == count
    assert len(looks) <= 4 * count
