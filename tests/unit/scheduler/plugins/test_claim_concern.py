"""A claim that comes or changes asks the pods that use one of its name, and wakes whom it would wake if it asked
all."""

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.catalog import ActionType
from scheduler.framework import ClusterEvent, Hint, HintRegistration, PodInfo
from scheduler.helpers.volumes import CLAIM
from scheduler.state import SchedulingQueue
from tests.support.faketime import ManualClocks
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import pod, runner
from tests.unit.scheduler.plugins.storage import claim, made, mount

HINTS = runner().hint_registrations()
PLUGINS = ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits")
ADDED = ClusterEvent(CLAIM, ActionType.ADD, "PersistentVolumeClaimAdd")
names = st.sampled_from(["a", "b", "p-a", "p-b", "p"])
namespaces = st.sampled_from(["default", "other"])


def volume(name: str, *, ephemeral: bool) -> dict[str, object]:
    if ephemeral:
        return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    volumes = draw(st.lists(st.tuples(names, st.booleans()), max_size=3, unique_by=lambda each: each[0]))
    metadata = {"namespace": draw(namespaces)}
    return pod("p", metadata=metadata, volumes=[volume(name, ephemeral=ephemeral) for name, ephemeral in volumes])


@pytest.mark.parametrize("plugin", PLUGINS)
@settings(max_examples=tries(100), deadline=None)
@given(pods(), namespaces, names, st.booleans())
def test_a_pod_that_a_claim_does_not_concern_is_one_that_its_hint_leaves_alone(
    plugin: str, waiting: PodInfo, namespace: str, name: str, known: bool
) -> None:
    new = made(CLAIM, name, namespace, spec={"accessModes": ["ReadWriteOnce"]})
    for registration in HINTS[plugin]:
        if registration.resource == CLAIM:
            concern = registration.concern
            assert concern is not None
            assert registration.hint is not None
            for changed in (new, None):
                old = new if known or changed is None else None
                concerned = set(concern.awaited(waiting)) & set(concern.named(old, changed))
                if not concerned and not concern.helps_all(old, changed):
                    assert registration.hint(waiting, old, changed) is Hint.SKIP


@pytest.mark.parametrize("plugin", PLUGINS)
def test_thousands_of_pods_that_wait_for_a_claim_each_are_asked_about_their_own(plugin: str) -> None:
    questions: list[str] = []

    def counted(registration: HintRegistration) -> HintRegistration:
        def hint(waiting: PodInfo, old: object, new: object) -> Hint:
            questions.append(waiting.name)
            assert registration.hint is not None
            return registration.hint(waiting, old, new)

        return registration._replace(hint=hint) if registration.resource == CLAIM else registration

    queue = SchedulingQueue(
        clocks=ManualClocks().clocks,
        sort_key=lambda info, at: info.name,
        hints={"test": {name: tuple(map(counted, registrations)) for name, registrations in HINTS.items()}},
        max_backoff=0,
    )
    waiting = [pod(f"p{number:04}", schedulerName="test", **mount(f"c{number:04}")) for number in range(1000)]
    for each in waiting:
        queue.add(each)
    while (queued := queue.pop()) is not None:
        queue.add_unschedulable(queued, rejectors=[plugin])
    for number, each in enumerate(waiting):
        assert queue.queue_of(each.uid) == "unschedulable"
        queue.on_event(ADDED, None, claim(f"c{number:04}"))
        assert queue.queue_of(each.uid) == "active"
    assert questions == [each.name for each in waiting]
