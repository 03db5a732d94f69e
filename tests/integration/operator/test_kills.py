"""The operator ends by SIGKILL at any of its writes, before or after the API server saw it: the end is the same."""

import base64
import random
import time
from pathlib import Path

import pytest
import yaml

from scheduler.config import configuration_hash
from scheduler.kube.client import ClientConfig
from tests.integration.operator.gate import Gate
from tests.integration.operator.support import Operator, TestKubelet
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE, OTHER_CONFIG

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("clean")]

OTHER_IMAGE = IMAGE.replace("0.1.0", "0.2.0")
SEEDS = 50
SEEDS_EACH_TIME = 2
LIVES = 12
"""Of one write each; more take longer than anybody waits."""
_KINDS = ("configmaps", "serviceaccounts", "services", "deployments", "roles", "rolebindings", "leases", "pods")


@pytest.fixture(scope="module")
def gate(control_plane):
    config = ClientConfig.load(control_plane.kubeconfig)
    gate = Gate(config.server, _authority(control_plane.kubeconfig))
    gate.start()
    yield gate
    gate.stop()


def _authority(kubeconfig):
    (cluster,) = yaml.safe_load(Path(kubeconfig).read_text())["clusters"]
    data = cluster["cluster"].get("certificate-authority-data")
    return base64.b64decode(data).decode() if data else Path(cluster["cluster"]["certificate-authority"]).read_text()


@pytest.fixture(scope="module")
def operator(api, operator_kubeconfig, gate):
    """Connected through the gate."""
    config = yaml.safe_load(operator_kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": gate.url}
    path = operator_kubeconfig.parent / "through-the-gate"
    path.write_text(yaml.safe_dump(config))
    operator = Operator(path, api.namespace, operator_kubeconfig.parent / "operator.log")
    operator.start()
    operator.wait_until_leading()
    yield operator
    assert operator.end() == 0


def alive(operator, gate):
    """Starts the operator again, as a kubelet would."""
    if operator.process.poll() is not None:
        operator.start()
        gate.aim(operator.process.kill)
    return True


def state(api):
    """What there is in the end, without what differs from run to run."""
    objects = {(kind, name) for kind in _KINDS for name in api.names(kind) if kind != "pods"}
    instance = api.get("secondaryschedulers", "cluster")
    status = (instance or {}).get("status") or {}
    conditions = {
        (condition["type"], condition["status"], condition["reason"]) for condition in status.get("conditions") or []
    }
    live = api.get("deployments", "secondary-scheduler")
    rules = (api.get("roles", "secondary-scheduler-operand") or {}).get("rules")
    return (
        objects,
        api.cluster_role_bindings(),
        conditions,
        status.get("configurationHash"),
        (status.get("lastRollout") or {}).get("outcome"),
        live and live["spec"]["template"],
        rules,
    )


def converged(api):
    """Whether the last configuration and image run, and nothing of a canary is left."""
    instance = api.get("secondaryschedulers", "cluster") or {"metadata": {}}
    status = instance.get("status") or {}
    # What a canary does not prove, such as the log level, shows in no hash.
    seen = status.get("observedGeneration") == instance["metadata"].get("generation")
    last = status.get("lastRollout") or {}
    done = (last.get("outcome"), last.get("image"), status.get("configurationHash"))
    left = [name for kind in _KINDS for name in api.names(kind) if "canary" in name]
    copies = [name for name in api.names("configmaps") if name.startswith("secondary-scheduler-active-")]
    role = api.get("roles", "secondary-scheduler-operand")
    quiet = role is not None and len(role["rules"][0]["resourceNames"]) == 1
    expected = ("Succeeded", OTHER_IMAGE, configuration_hash(OTHER_CONFIG))
    serves = api.get("services", "metrics") is not None
    return seen and done == expected and not left and len(copies) == 1 and quiet and serves


def run(api, operator, gate, rng, kills):
    """From an instance to a new configuration, a new image, drift and more; in any order."""
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    gate.aim(operator.process.kill)
    gate.arm(kills)
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "cluster", **identity, spec=spec)
    changes = [
        lambda: api.patch("configmaps", "config", {"data": {"config.yaml": OTHER_CONFIG}}),
        lambda: api.patch("secondaryschedulers", "cluster", {"spec": {"schedulerImage": OTHER_IMAGE}}),
        lambda: api.patch("secondaryschedulers", "cluster", {"spec": {"logLevel": "Debug"}}),
        lambda: api.delete("services", "metrics"),
    ]
    rng.shuffle(changes)
    for change in changes:
        pause = time.monotonic() + rng.choice([0.0, 0.5, 2.0])
        while alive(operator, gate) and time.monotonic() < pause:
            time.sleep(0.05)
        change()
    eventually(lambda: alive(operator, gate) and converged(api), "converged")
    eventually(lambda: api.condition("Progressing").get("status") == "False", "at rest")


@pytest.fixture(scope="module")
def expected(api, operator, gate, control_plane):
    """Where it ends without a kill."""
    kubelet = TestKubelet(control_plane.kubeconfig, api.namespace)
    kubelet.start()
    run(api, operator, gate, random.Random(0), {})
    reached = state(api)
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    api.delete("configmaps", "config")
    kubelet.stop()
    return reached


@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=[pytest.mark.slow] if n >= SEEDS_EACH_TIME else []) for n in range(SEEDS)],
)
def test_an_operator_that_is_killed_at_its_writes_ends_where_it_would_have_ended(
    seed, api, operator, gate, expected, kubelet
):
    rng = random.Random(seed)
    # How many writes there are depends on what the operator finds at a time: the first ones are always there.
    writes = [rng.randrange(1, 10), *rng.sample(range(10, 60), 2)]
    kills = {write: rng.random() < 0.5 for write in writes}
    run(api, operator, gate, rng, kills)
    killed = gate.killed
    # Later writes, those of the clean-up among them, are nobody's end.
    gate.arm({})
    assert killed, "the first of the writes was made"
    assert state(api) == expected
    gate.arm({rng.randrange(1, 12): rng.random() < 0.5})
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: alive(operator, gate) and api.get("secondaryschedulers", "cluster") is None, "instance gone")
    api.delete("configmaps", "config")
    left = {name for kind in _KINDS for name in api.names(kind) if name.startswith(("secondary-scheduler", "metrics"))}
    assert left == {"secondary-scheduler-operator"}
    assert not api.cluster_role_bindings()


@pytest.mark.slow
@pytest.mark.parametrize("lost_in_between", [False, True], ids=["after each write", "before and after, in turn"])
@pytest.mark.parametrize("first", [1, 1 + LIVES])
def test_an_operator_that_ends_between_any_two_writes_ends_where_it_would_have_ended(
    first, lost_in_between, api, operator, gate, expected, kubelet
):
    """Each life makes one write, so that every state between two of them is one that a start begins with."""
    kills = {write: not lost_in_between or write % 2 == 0 for write in range(first, first + LIVES)}
    run(api, operator, gate, random.Random(1), kills)
    killed = gate.killed
    gate.arm({})
    assert killed == LIVES, "there are so many writes"
    assert state(api) == expected
