"""A thousand edits within a minute: the last one counts, nothing is leaked, memory stays where it was."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler.config import configuration_hash
from tests.integration.operator.support import Api
from tests.support.waiting import eventually
from tests.unit.operator.builders import BAD_CONFIG, CONFIG, IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.usefixtures("clean")]

EDITS = 1000
EDITORS = 4
MAX_GROWTH = 48 << 20
"""Bytes. Python keeps what it once needed for objects; a thousand copies of anything would be more."""
_KINDS = ("configmaps", "serviceaccounts", "services", "deployments", "roles", "rolebindings", "leases", "pods")
LAST = CONFIG.replace("weight: 3", "weight: 99")


def resident(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def names(api):
    return {(kind, name) for kind in _KINDS for name in api.names(kind) if kind != "pods"}


def edits(control_plane, namespace, numbers):
    """Somebody with a connection of their own."""
    with contextlib.closing(Api(control_plane.kubeconfig, namespace)) as api:
        for number in numbers:
            edit(api, number)


def edit(api, number):
    match number % 4:
        case 0:
            text = CONFIG.replace("weight: 3", f"weight: {1 + number % 90}")
            api.patch("configmaps", "config", {"data": {"config.yaml": text}})
        case 1:
            api.patch("configmaps", "config", {"data": {"config.yaml": BAD_CONFIG + f"# {number}\n"}})
        case 2:
            tag = IMAGE.replace("0.1.0", f"0.1.{number}")
            api.patch("secondaryschedulers", "cluster", {"spec": {"schedulerImage": tag}})
        case 3:
            labels = {"labels": {"edit": str(number)}}
            level = ("Normal", "Debug")[number // 4 % 2]
            api.patch("secondaryschedulers", "cluster", {"metadata": labels, "spec": {"operatorLogLevel": level}})


def test_a_thousand_edits_leak_nothing_and_end_in_the_last(control_plane, api, operator, kubelet):
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "cluster", **identity, spec=spec)
    first, last = configuration_hash(CONFIG), configuration_hash(LAST)
    api.wait_for_hash(first)
    eventually(lambda: api.condition("Progressing").get("status") == "False", "at rest")
    before, held = names(api), resident(operator.process.pid)
    with ThreadPoolExecutor(EDITORS) as pool:
        list(
            pool.map(lambda editor: edits(control_plane, api.namespace, range(editor, EDITS, EDITORS)), range(EDITORS))
        )
    api.patch("configmaps", "config", {"data": {"config.yaml": LAST}})
    api.patch("secondaryschedulers", "cluster", {"spec": {"schedulerImage": IMAGE, "operatorLogLevel": "Normal"}})
    api.wait_for_hash(last)
    api.wait_for("Degraded", "False")
    expected = {(kind, name.replace(first, last)) for kind, name in before}
    eventually(lambda: names(api) == expected, "nothing else is left")
    eventually(lambda: len(api.items("pods")) == 1, "one pod")
    assert resident(operator.process.pid) - held < MAX_GROWTH
    assert [line for line in operator.log_lines() if "exception" in line] == []
