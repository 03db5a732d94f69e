"""`/metrics` and `/metrics/resources` beside those of the real scheduler: the same names, types, labels and buckets.

The real one is scheduler-plugins v0.34.7, which is kube-scheduler 1.34 with more plugins: Coscheduling makes pods wait
in Permit, as no plugin of kube-scheduler itself does. Metrics with labels appear at their first use. So both schedulers
bind, reject, preempt and permit pods, fail to bind a volume, and find their Lease changed by somebody else.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from devcluster import ports
from devcluster.ports import LOOPBACK
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane
from tests.conformance.schedulerplugins import install_crds
from tests.support.waiting import PATIENCE_SECONDS, eventually, eventually_async

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]
Json = dict[str, Any]

SCHEDULER = {
    "scheduler_cache_size",
    "scheduler_event_handling_duration_seconds",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_goroutines",
    "scheduler_inflight_events",
    "scheduler_pending_pods",
    "scheduler_permit_wait_duration_seconds",
    "scheduler_plugin_evaluation",
    "scheduler_plugin_execution_duration_seconds",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_preemption_attempts",
    "scheduler_preemption_goroutines_duration_seconds",
    "scheduler_preemption_goroutines_execution",
    "scheduler_preemption_victims",
    "scheduler_queue_incoming_pods",
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_schedule_attempts",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_unschedulable_pods",
    "scheduler_volume_scheduling_stage_error",
}
"""All that kube-scheduler 1.34 registers with default feature gates (pkg/scheduler/metrics, volumebinding/metrics),
counters without `_total`; but for scheduler_volume_binder_cache_requests_total, which nothing there counts."""
OTHERS = {
    "kubernetes_build_info",
    "leader_election_master_status",
    "leader_election_slowpath",
}
SHARED = re.compile(r"scheduler_|rest_client_|workqueue_|leader_election_|process_|kubernetes_build_info")
_POINTS = {
    "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
}
_ALLOWED = "--authorization-always-allow-paths=/metrics,/metrics/resources,/healthz,/readyz"
_CRD = Path(__file__).parents[3] / "components/crds/scheduling.x-k8s.io_podgroups.yaml"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Side:
    """One scheduler, with its own profile, Lease and node."""

    def __init__(self, name: str, plane: ControlPlane, directory: Path) -> None:
        self.name = name
        self.port = ports.allocate([name], {})[name]
        self.log = directory / f"{name}.log"
        self._pods = 0
        self._config = directory / f"{name}.json"
        self._kubeconfig = plane.layout.kubeconfig
        args = [
            {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}},
            {"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 30}},
        ]
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": True, "resourceName": name},
            "clientConnection": {"kubeconfig": str(self._kubeconfig)},
            "profiles": [{"schedulerName": name, "plugins": _POINTS, "pluginConfig": args}],
        }
        self._config.write_text(json.dumps(configuration))

    @contextlib.contextmanager
    def running(self, program: list[str]) -> Iterator[Side]:
        """Run it until it leads."""
        command = [*program, f"--config={self._config}", f"--secure-port={self.port}", f"--bind-address={LOOPBACK}"]
        command += [_ALLOWED, f"--authentication-kubeconfig={self._kubeconfig}"]
        command += [f"--authorization-kubeconfig={self._kubeconfig}"]
        with self.log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                yield self
            finally:
                process.terminate()
                process.wait(PATIENCE_SECONDS)

    def text(self, path: str = "/metrics") -> str:
        """What it answers."""
        with contextlib.suppress(requests.ConnectionError):
            return requests.get(f"https://{LOOPBACK}:{self.port}{path}", verify=False, timeout=20).text
        return ""

    def families(self, path: str = "/metrics") -> dict[str, Metric]:
        """Its metrics by name, those that have a series."""
        return {family.name: family for family in text_string_to_metric_families(self.text(path)) if family.samples}

    def pod(self, cpu: str = "0", priority: str = "low", **more: Any) -> Json:
        """A pod for it, on its own node."""
        self._pods += 1
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}}}
        return {
            "kind": "Pod",
            "metadata": {"name": f"{self.name}-{self._pods}", "namespace": "metrics", "labels": more.pop("labels", {})},
            "spec": {
                "schedulerName": self.name,
                "priorityClassName": priority,
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {"side": self.name},
                "containers": [container],
                **more,
            },
        }


@pytest.fixture
def sides(plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    real, ours = Side("real", plane, tmp_path), Side("ours", plane, tmp_path)
    binary = binaries.ensure(["scheduler-plugins"], SilentReporter())["scheduler-plugins"]
    with real.running([str(binary)]), ours.running([sys.executable, "-m", "scheduler"]):
        yield real, ours


async def _set_up(api: Api) -> None:
    await api.create({"kind": "Namespace", "metadata": {"name": "metrics"}})
    for name, value in (("low", 1), ("high", 100)):
        await api.create({"kind": "PriorityClass", "metadata": {"name": name}, "value": value})
    unanswered = {"provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer"}
    await api.create({"kind": "StorageClass", "metadata": {"name": "unanswered"}, **unanswered})


async def _stage(api: Api, side: Side) -> None:
    """Have a scheduler bind, reject, preempt and permit pods, and fail to bind a volume."""
    name = side.name
    resources = {"cpu": "2", "memory": "8Gi", "pods": "500"}
    node = {"metadata": {"name": name, "labels": {"side": name}}, "status": {"allocatable": resources}}
    await api.create({"kind": "Node", **node, "status": {"allocatable": resources, "capacity": resources}})
    group = {"metadata": {"name": name, "namespace": "metrics"}, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 60}}
    await api.create({"kind": "PodGroup", "apiVersion": "scheduling.x-k8s.io/v1alpha1", **group})
    for _ in range(2):
        await api.create(side.pod(labels={"scheduling.x-k8s.io/pod-group": name}))
    for _ in range(2):
        await _wait_bound(api, await api.create(side.pod("1")))
    await api.create(side.pod("5"))
    await _wait_bound(api, await api.create(side.pod("1", "high")))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {"storageClassName": "unanswered", **claim}
    await api.create(
        {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "metrics"}, "spec": spec}
    )
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
    await api.create(side.pod(volumes=[volume]))


async def _wait_bound(api: Api, pod: Json) -> None:
    async def bound() -> bool:
        return bool((await api.get(pod | {"kind": "Pod"}))["spec"].get("nodeName"))

    await eventually_async(bound, f"{pod['metadata']['name']} has a node")


async def _use_what_is_missing(api: Api, side: Side, round_number: int) -> None:
    """What is measured by chance, or one of ten times: more attempts, more hints; and a Lease that was changed."""
    for _ in range(5):
        await api.create(side.pod())
    node = await api.get({"kind": "Node", "metadata": {"name": side.name}})
    node["status"]["allocatable"]["memory"] = f"{9 + round_number}Gi"
    await api.call("PUT", f"/api/v1/nodes/{side.name}/status", node)
    await api.call("PATCH", f"{_LEASES}/{side.name}", {"metadata": {"annotations": {"touched": str(round_number)}}})


def _labels_of(family: Metric) -> set[str]:
    return {label for sample in family.samples for label in sample.labels} - {"le"}


def _buckets_of(family: Metric) -> set[float]:
    return {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}


def _shape(family: Metric) -> tuple[str, set[str], set[float], str]:
    # Two collectors of the Go process give the start time, one without a level; which comes first differs by scrape.
    levelled = family.documentation.startswith("[") and family.name != "process_start_time_seconds"
    level = family.documentation.partition("] ")[0] if levelled else ""
    return family.type, _labels_of(family), _buckets_of(family), level


async def test_all_metrics_of_the_real_scheduler_are_here_with_type_labels_and_buckets(
    plane: ControlPlane, sides: tuple[Side, Side]
) -> None:
    await install_crds(plane, [_CRD])
    api = Api(plane)
    try:
        await _set_up(api)
        for side in sides:
            await _stage(api, side)
        wanted = SCHEDULER | OTHERS
        rounds = iter(range(100_000))

        async def seen_on_both() -> bool:
            missing = [side for side in sides if not wanted <= side.families().keys()]
            for side in missing:
                await _use_what_is_missing(api, side, next(rounds))
            return not missing

        await eventually_async(seen_on_both, "every name on the list is seen on both sides", interval=1.0)
        real, ours = (side.families() for side in sides)
        shared = {name for name in real if SHARED.match(name)}
        assert shared >= wanted
        assert sorted(shared - ours.keys()) == []
        differing = {name: (_shape(real[name]), _shape(ours[name])) for name in shared}
        assert {name: shapes for name, shapes in differing.items() if shapes[0] != shapes[1]} == {}
        assert {name for name in ours if SHARED.match(name)} == shared, "nothing more under upstream's names"
    finally:
        await api.close()
        _print_logs(sides)


def _print_logs(sides: tuple[Side, Side]) -> None:
    """Shown by pytest when the test fails."""
    for side in sides:
        names = SCHEDULER | OTHERS
        print(side.name, "lacks", sorted(names - side.families().keys()), side.log.read_text()[-3000:])


async def test_the_resources_of_all_pods_are_those_that_the_real_scheduler_shows(
    plane: ControlPlane, sides: tuple[Side, Side]
) -> None:
    api = Api(plane)
    try:
        await api.create({"kind": "Namespace", "metadata": {"name": "resources"}})
        init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "3"}}}
        amounts = {"cpu": "250m", "memory": "64Mi", "example.com/gpu": "2", "ephemeral-storage": "1Gi"}
        main = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": {**amounts, "cpu": "2"}}}
        spec = {"schedulerName": "nobody", "nodeName": "elsewhere", "initContainers": [init], "containers": [main]}
        await api.create({"kind": "Pod", "metadata": {"name": "p", "namespace": "resources"}, "spec": spec})

        def shown(side: Side) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
            return {
                (sample.name, tuple(sorted(sample.labels.items())), sample.value)
                for family in side.families("/metrics/resources").values()
                for sample in family.samples
                if sample.labels["pod"] == "p"
            }

        eventually(lambda: all(map(shown, sides)), "both show it", interval=0.5)
        assert shown(sides[1]) == shown(sides[0])
        assert len(shown(sides[1])) == 8
    finally:
        await api.close()
