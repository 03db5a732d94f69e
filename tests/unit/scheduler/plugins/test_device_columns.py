"""What columns say of a claim is what the search says of each node, whatever has changed in between."""

import random

import pytest

from scheduler.plugins.dynamicresources import attempt
from scheduler.plugins.dynamicresources.columns import DeviceColumns
from scheduler.plugins.dynamicresources.ledger import Ledger
from tests.unit.scheduler.core.builders import node, pod
from tests.unit.scheduler.plugins.devices import (
    DRIVER,
    Server,
    Try,
    allocated,
    claim,
    device,
    device_class,
    devices_of,
    exactly,
    first_available,
    using,
)
from tests.unit.scheduler.plugins.storage import put

NODES = "abcdef"
WANTED = (
    {},
    {"count": 2},
    {"when": f'device.attributes["{DRIVER}"].n == 1'},
    {"when": f'device.attributes["{DRIVER}"].odd', "count": 2},
    {"device_class": "odd"},
    {"tolerations": [{"operator": "Exists"}]},
)


def outcome(server: Server, name: str) -> object:
    """Rejections by node, or the error."""
    try:
        return Try(server, pod(f"user-of-{name}", **using(name))).rejections()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def compared(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """The outcome, by columns and by the search."""
    by_columns = outcome(server, name)
    with monkeypatch.context() as patched:
        # Nothing is counted, and nothing kept.
        patched.setattr(attempt, "plain_request", lambda claims: None)
        patched.setattr(attempt, "_columns", lambda objects: DeviceColumns(objects.derived(Ledger)))
        server.state.objects._derived.pop(attempt._columns, None)
        by_search = outcome(server, name)
        server.state.objects._derived.pop(attempt._columns, None)
    assert by_columns == by_search
    return by_columns


def random_slice(rng: random.Random) -> object:
    place = rng.choice(NODES)
    devices = []
    for index in range(rng.randrange(1, 5)):
        attributes = {"n": rng.randrange(3), "odd": bool(rng.randrange(2))}
        if rng.random() < 0.03:
            del attributes["n"]
        taints = [{"key": "t", "effect": "NoSchedule"}] if rng.random() < 0.1 else []
        name = f"g{index if rng.random() > 0.02 else 0}"
        several = {"allowMultipleAllocations": True} if rng.random() < 0.1 else {}
        devices.append(device(name, attributes=attributes, taints=taints, **several))
    spec = {}
    if rng.random() < 0.1:
        spec = {"nodeName": None, "allNodes": True}
    elif rng.random() < 0.1:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
        spec = {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [term]}}
    pool = {"name": place, "resourceSliceCount": 1 if rng.random() < 0.95 else 2}
    return devices_of(place, *devices, name=f"slice-{place}{rng.choice('12')}", pool=pool, **spec)


def change(rng: random.Random, server: Server) -> None:
    """Something happens in the cluster."""
    objects, kind = server.state.objects, rng.randrange(6)
    if kind < 2:
        objects.upsert("ResourceSlice", random_slice(rng))
    elif kind == 2:
        objects.remove("ResourceSlice", "", f"slice-{rng.choice(NODES)}{rng.choice('12')}")
    elif kind == 3:
        name = f"other-{rng.randrange(5)}"
        objects.upsert("ResourceClaim", allocated(name, (rng.choice(NODES), f"g{rng.randrange(4)}")))
    elif kind == 4:
        objects.remove("ResourceClaim", "default", f"other-{rng.randrange(5)}")
    else:
        zone = rng.choice(("east", "west"))
        server.state.upsert_node(node(rng.choice(NODES), labels={"zone": zone}))


@pytest.mark.parametrize("seed", range(30))
def test_columns_say_what_the_search_says(seed, monkeypatch):
    rng = random.Random(seed)
    odd = device_class("odd", f'device.attributes["{DRIVER}"].odd')
    claims = [
        claim(f"c{index}", exactly(device_class=more.pop("device_class", "gpu"), **more))
        for index, more in enumerate(map(dict, WANTED))
    ]
    # These are searched for.
    matching = [{"matchAttribute": f"{DRIVER}/n"}]
    claims.append(claim("c6", exactly(count=2), constraints=matching))
    claims.append(claim("c7", first_available("r", exactly("odd", "odd", count=2), exactly("any")), exactly("s")))
    server = Server(*claims, device_class(), odd, nodes=NODES)
    seen = set()
    for _ in range(40):
        change(rng, server)
        seen.add(str(compared(server, f"c{rng.randrange(len(claims))}", monkeypatch)))
    assert len(seen) > 3


def test_claims_of_one_template_share_a_column(monkeypatch):
    server = Server(claim("c0"), claim("c1"), device_class(), devices_of("a", "g0", "g1"), nodes="ab")
    assert outcome(server, "c0") == {"b": "cannot allocate all claims"}
    evaluations = []
    monkeypatch.setattr(
        "scheduler.plugins.dynamicresources.columns.Preparation", lambda *args: evaluations.append(args)
    )
    assert outcome(server, "c1") == {"b": "cannot allocate all claims"}
    assert evaluations == []


def test_a_column_of_another_class_of_the_same_name_is_another(monkeypatch):
    server = Server(claim("c0"), device_class(), devices_of("a", "g0"))
    assert outcome(server, "c0") == {}
    put(server.state, device_class("gpu", "false"))
    assert outcome(server, "c0") == {"a": "cannot allocate all claims"}


def test_an_error_names_the_claim_of_the_pod():
    broken = exactly(when=f'device.attributes["{DRIVER}"].absent')
    server = Server(claim("c0", broken), claim("c1", broken), device_class(), devices_of("a", "g0"))
    for name in ("c0", "c1"):
        assert f"claim default/{name}: selector #0" in str(outcome(server, name))


def test_devices_that_nobody_could_look_at_in_time_are_looked_at_next_time(monkeypatch):
    monkeypatch.setattr("scheduler.plugins.dynamicresources.requests.Budget.__init__.__defaults__", (12,))
    slices = [devices_of(name, device("g0", attributes={"n": index})) for index, name in enumerate(NODES)]
    server = Server(
        claim("c0", exactly(when=f'device.attributes["{DRIVER}"].n >= -17')), device_class(), *slices, nodes=NODES
    )
    first = outcome(server, "c0")
    assert "timed out trying to allocate devices" in first.values()
    for _ in NODES:
        last = outcome(server, "c0")
    assert last == {}
