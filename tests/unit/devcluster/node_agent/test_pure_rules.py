"""Rules without I/O: expansion, image map, addresses, back-off, probes, security, fields, restored statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devcluster.node_agent.addresses import AddressPool
from devcluster.node_agent.container import RestartBackoff
from devcluster.node_agent.environment import expand
from devcluster.node_agent.images import (
    ImageMapError,
    NoSuchExecutableError,
    parse_image_map,
    repository,
)
from devcluster.node_agent.objects import ContainerConfigError
from devcluster.node_agent.probing import ProbeKind, ProbeState, ProbeTiming, http_url, port_number
from devcluster.node_agent.security import DEFAULT_CAPABILITIES, container_security
from devcluster.node_agent.status import restored_report
from devcluster.node_agent.supported_fields import unsupported_fields


# --- expansion (cases of k8s.io/kubernetes/third_party/forked/golang/expansion) ---------------------------------------
@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "a"),
        ("x$(A)y$(B)", "xayb"),
        ("$(NO)", "$(NO)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$(A$(B)", "$(A$(B)"),
        ("", ""),
    ],
)
def test_references_are_expanded_as_by_kubelet(text: str, expanded: str) -> None:
    assert expand(text, {"A": "a", "B": "b"}) == expanded


def test_a_value_is_not_expanded_again() -> None:
    assert expand("$(A)", {"A": "$(B)", "B": "b"}) == "$(B)"


# --- images -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("reference", "wanted"),
    [
        ("localhost/a/b:0.1.0", "localhost/a/b"),
        ("localhost:5000/a", "localhost:5000/a"),
        ("localhost:5000/a:1@sha256:00ff", "localhost:5000/a"),
        ("a@sha256:00ff", "a"),
        ("a", "a"),
    ],
)
def test_tag_and_digest_do_not_count(reference: str, wanted: str) -> None:
    assert repository(reference) == wanted


IMAGES = {
    "localhost/s": {
        "executables": {"/bin/s": ["/venv/python", "-m", "s"], "/bin/other": ["/x"]},
        "entrypoint": ["/bin/s", "--default"],
        "appendArgs": {"/bin/s": ["--bind-address=$(POD_IP)"]},
        "user": 65532,
    }
}


@pytest.mark.parametrize(
    ("command", "args", "wanted"),
    [
        pytest.param(["/bin/s"], ["-v"], (("/venv/python", "-m", "s"), ("-v", "--bind-address=1.2.3.4")), id="command"),
        pytest.param(
            [], ["-v"], (("/venv/python", "-m", "s"), ("--default", "-v", "--bind-address=1.2.3.4")), id="entry"
        ),
        pytest.param(["other", "1"], [], (("/x",), ("1",)), id="by name, without appended arguments"),
    ],
)
def test_executable_of_an_image_becomes_a_host_command(command: list[str], args: list[str], wanted: Any) -> None:
    image = parse_image_map(json.dumps(IMAGES)).find("localhost/s:9")
    assert image is not None
    assert image.command_line(command, args, {"POD_IP": "1.2.3.4"}) == wanted


def test_an_entry_with_a_tag_stands_for_that_tag_alone() -> None:
    images = parse_image_map(json.dumps({**IMAGES, "localhost/s:1": {"executables": {"/bin/old": ["/y"]}}}))
    by_tag = {tag: images.find(f"localhost/s:{tag}") for tag in ("1", "2")}
    assert {tag: sorted(image.executables) for tag, image in by_tag.items() if image} == {
        "1": ["/bin/old"],
        "2": ["/bin/other", "/bin/s"],
    }


@pytest.mark.parametrize("command", [["/bin/sh"], ["sh"], ["/usr/bin/s"]])
def test_host_executables_are_not_part_of_an_image(command: list[str]) -> None:
    image = parse_image_map(json.dumps(IMAGES)).find("localhost/s")
    assert image is not None
    with pytest.raises(NoSuchExecutableError, match="no such file or directory"):
        image.command_line(command, [], {})


def test_nothing_is_appended_to_a_command_in_a_running_container() -> None:
    image = parse_image_map(json.dumps(IMAGES)).find("localhost/s")
    assert image is not None
    assert image.exec_line(["s", "--version"]) == (("/venv/python", "-m", "s"), ("--version",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Invalid JSON: EOF while parsing an object at line 1"),
        ("[]", "Input should be an object"),
        ('{"a": {"exec": {}}}', r"\['a'\]\['exec'\]: Extra inputs are not permitted"),
        ('{"a": {"executables": {"/x": []}}}', r"\['a'\]\['executables'\]\['/x'\]: .* at least 1 item"),
        ('{"a": {"user": "nobody"}}', r"\['a'\]\['user'\]: Input should be a valid integer"),
        ('{"a": {"entrypoint": "x"}}', r"\['a'\]\['entrypoint'\]: Input should be a valid array"),
    ],
)
def test_faulty_image_map_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ImageMapError, match=message):
        parse_image_map(text)


# --- addresses --------------------------------------------------------------------------------------------------------
def test_addresses_are_unique_until_released_and_not_reused_at_once() -> None:
    pool = AddressPool("127.10.0.0/29")
    addresses = [pool.take() for _ in range(6)]
    assert addresses == [f"127.10.0.{n}" for n in range(1, 7)]
    with pytest.raises(RuntimeError, match="no free pod address"):
        pool.take()
    pool.release("127.10.0.3")
    assert pool.take() == "127.10.0.3"


@pytest.mark.parametrize("base", ["10.0.0.0", "127.0.0.1/32", "nonsense"])
def test_unusable_pod_networks_are_refused(base: str) -> None:
    with pytest.raises(ValueError):
        AddressPool(base)


# --- back-off ---------------------------------------------------------------------------------------------------------
def test_restart_delays_double_up_to_the_limit() -> None:
    backoff, now, delays = RestartBackoff(10, 300), 0.0, []
    for _ in range(8):
        delay = backoff.delay(now)
        delays.append(delay)
        now += delay + 1
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_resets_the_backoff() -> None:
    backoff = RestartBackoff(10, 300)
    assert [backoff.delay(0), backoff.delay(1), backoff.delay(12)] == [0, 10, 20]
    assert backoff.delay(32 + 599) == 40
    assert backoff.delay(32 + 599 + 40 + 601) == 0


# --- probes -----------------------------------------------------------------------------------------------------------
def probe(kind: ProbeKind, **timing: int) -> ProbeState:
    return ProbeState(kind, ProbeTiming.of(timing), started_at=100.0)


def test_probe_runs_after_its_delay_and_then_every_period() -> None:
    state = probe("readiness", initialDelaySeconds=5, periodSeconds=3)
    assert state.due() == 105
    state.record(True, 105)
    assert state.due() == 108


def test_defaults_are_those_of_the_api() -> None:
    assert ProbeTiming.of({}) == ProbeTiming(0, 10, 1, 1, 3, None)


@pytest.mark.parametrize(("kind", "initially"), [("liveness", True), ("readiness", False), ("startup", False)])
def test_result_before_the_first_probe(kind: ProbeKind, initially: bool) -> None:
    assert probe(kind).passing is initially


def test_liveness_fails_at_the_threshold_of_failures_in_a_row() -> None:
    state = probe("liveness", failureThreshold=3)
    results = [False, False, True, False, False, False]
    decided = [state.record(ok, 100.0 + n) for n, ok in enumerate(results)]
    assert decided == [False, False, False, False, False, True]
    assert state.passing is False


def test_readiness_needs_its_successes_in_a_row_and_falls_after_its_failures() -> None:
    state = probe("readiness", successThreshold=2, failureThreshold=2)
    passing = []
    for n, ok in enumerate([True, False, True, True, False, True, False, False]):
        state.record(ok, float(n))
        passing.append(state.passing)
    assert passing == [False, False, False, True, True, True, True, False]


def test_liveness_waits_for_the_startup_probe() -> None:
    state = probe("liveness", initialDelaySeconds=1)
    state.hold_until(130.0)
    assert state.due() == 130


# --- probe targets ----------------------------------------------------------------------------------------------------
CONTAINER = {"name": "c", "ports": [{"name": "https", "containerPort": 10259}]}


@pytest.mark.parametrize("path", ["healthz", "/healthz"])
def test_path_of_a_probe_may_lack_its_slash(path: str) -> None:
    action = {"scheme": "HTTPS", "port": "https", "path": path}
    assert http_url(action, CONTAINER, "127.1.2.3") == "https://127.1.2.3:10259/healthz"


def test_unknown_port_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="couldn't find port 'web' in container 'c'"):
        port_number("web", CONTAINER)


# --- security ---------------------------------------------------------------------------------------------------------
def pod_with(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"nodeName": "real-0", "containers": [{"name": "c", "image": "i", **container}], **spec},
    }


def security(container: dict[str, Any], image_user: int | None = None, **spec: Any) -> Any:
    pod = pod_with(container, **spec)
    return container_security(pod, pod["spec"]["containers"][0], image_user)


def test_container_settings_win_over_the_pods() -> None:
    settings = security({"securityContext": {"runAsUser": 5}}, securityContext={"runAsUser": 7, "runAsGroup": 8})
    assert (settings.uid, settings.gid) == (5, 8)


def test_image_user_counts_where_the_pod_names_none() -> None:
    assert security({}, 65532, securityContext={"runAsNonRoot": True}).uid == 65532


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"runAsNonRoot": True}, "container has runAsNonRoot and image will run as root"),
        ({"runAsNonRoot": True, "runAsUser": 0}, "container's runAsUser breaks non-root policy"),
    ],
)
def test_root_is_refused_where_it_must_not_be(context: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError, match=message):
        security({"securityContext": context})


def test_capabilities_are_dropped_and_added() -> None:
    names = {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}
    assert security({"securityContext": {"capabilities": names}}).capabilities == (10,)
    kept = security({"securityContext": {"capabilities": {"drop": ["CAP_CHOWN"]}}}).capabilities
    assert set(kept) == set(DEFAULT_CAPABILITIES.values()) - {0}


# --- supported fields ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("container", "spec", "paths"),
    [
        ({}, {"volumes": [{"name": "v", "nfs": {}}]}, ["spec.volumes[0].nfs"]),
        ({}, {"hostPID": True}, ["spec.hostPID"]),
        ({}, {"hostPID": False, "dnsConfig": {}, "priority": 0}, []),
        ({"stdin": True}, {}, ["spec.containers[0].stdin"]),
        ({"livenessProbe": {"grpc": {"port": 1}}}, {}, ["spec.containers[0].livenessProbe.grpc"]),
        ({"lifecycle": {"postStart": {"exec": {}}}}, {}, ["spec.containers[0].lifecycle.postStart"]),
        ({"securityContext": {"privileged": True}}, {}, ["spec.containers[0].securityContext.privileged"]),
        (
            {"securityContext": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}},
            {},
            ["spec.containers[0].securityContext.capabilities.add[SYS_ADMIN]"],
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            {},
            ["spec.containers[0].securityContext.seccompProfile"],
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)"}]},
            {},
            ["spec.containers[0].volumeMounts[0].subPathExpr"],
        ),
        (
            {},
            {"volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {}}]}}]},
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle"],
        ),
    ],
)
def test_unsupported_fields_are_named(container: dict[str, Any], spec: dict[str, Any], paths: list[str]) -> None:
    assert unsupported_fields(pod_with(container, **spec)) == paths


def test_operators_deployment_is_accepted_whole() -> None:
    context = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    probe = {"httpGet": {"scheme": "HTTPS", "port": 10259, "path": "healthz"}, "initialDelaySeconds": 45}
    pod = pod_with(
        {
            "command": ["/bin/kube-scheduler"],
            "args": ["--config=/etc/kubernetes/config.yaml"],
            "env": [{"name": "ENABLE_OPENSHIFT_AUTH", "value": "true"}],
            "ports": [{"containerPort": 10259, "protocol": "TCP"}],
            "livenessProbe": probe,
            "readinessProbe": probe,
            "securityContext": context,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "c", "mountPath": "/etc/kubernetes"}, {"name": "tmp", "mountPath": "/tmp"}],
        },
        affinity={"podAntiAffinity": {}},
        securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        serviceAccountName="secondary-scheduler",
        volumes=[{"name": "c", "configMap": {"name": "c"}}, {"name": "tmp", "emptyDir": {}}],
    )
    assert unsupported_fields(pod) == []


# --- after a restart of the agent -------------------------------------------------------------------------------------
def test_container_that_ran_under_a_predecessor_counts_as_lost() -> None:
    running = {"name": "c", "restartCount": 2, "containerID": "process://1", "state": {"running": {"startedAt": "t"}}}
    report = restored_report({"name": "c"}, [running], now=0)
    assert report.restarts == 2
    assert report.finished is not None
    assert (report.finished["exitCode"], report.finished["reason"]) == (137, "ContainerStatusUnknown")


def test_finished_and_waiting_containers_keep_what_is_known_of_them() -> None:
    ended = {"exitCode": 0, "reason": "Completed"}
    done = restored_report({"name": "c"}, [{"name": "c", "state": {"terminated": ended}}], now=0)
    assert done.finished == ended
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashing = restored_report(
        {"name": "c"}, [{"name": "c", "state": state, "lastState": {"terminated": ended}}], now=0
    )
    assert (crashing.finished, crashing.last_state) == (None, {"terminated": ended})
    assert restored_report({"name": "new"}, [], now=0).last_state == {}
