"""What podman is told for a container of a pod; without podman."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from devcluster.errors import ServiceError
from devcluster.layout import Layout
from devcluster.node_agent.containers import ContainerRequest
from devcluster.node_agent.logs import CriDecoder
from devcluster.node_agent.objects import ContainerConfigError, Obj
from devcluster.node_agent.podman import PodmanUnavailableError, find_podman
from devcluster.node_agent.podman.containers import (
    ContainerPlacement,
    ImageConfig,
    command_line,
    environment_file,
    run_arguments,
)
from devcluster.node_agent.podman.host import cgroup_controllers, last_line
from devcluster.node_agent.sandbox import VolumeMount
from devcluster.node_agent.security import container_security
from devcluster.services import nodes
from devcluster.services.nodes import node_agent
from devcluster.state import Containers, RecordedCluster

IMAGE = ImageConfig(id="5eed", user="65532:65532", entrypoint=("/bin/tool",), command=("--help",))
PLACE = ContainerPlacement(
    name="k8s_c_p_n_u_0", agent=Path("/state/real-0"), env_file=Path("/state/env"), monitor_dir=Path("/state/monitor"),
    controllers=frozenset({"cpu", "memory"}), open_files=1024, processes=512,
)  # fmt: skip


def request(pod: Obj | None = None, mounts: tuple[VolumeMount, ...] = (), **container: Any) -> ContainerRequest:
    environment = container.pop("environment", {})
    return ContainerRequest(
        pod={"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": pod or {}},
        container={"name": "c", "image": "tool:1", **container},
        command=tuple(container.get("command", ())), args=tuple(container.get("args", ())), env=environment,
        variables={}, mounts=mounts, hostname="p", directory=Path("/state/pods/u"), log_file=Path("/state/logs/c.log"),
    )  # fmt: skip


def arguments(container_request: ContainerRequest, place: ContainerPlacement = PLACE) -> list[str]:
    return run_arguments(IMAGE, container_request, command_line(IMAGE, container_request, {}), place)


def test_a_container_is_marked_named_and_given_what_every_container_is_given() -> None:
    command = arguments(request())
    assert command[:3] == ["run", "--detach", "--pull=never"]
    assert "--label=io.secondary-scheduler.node-agent=/state/real-0" in command
    assert "--label=io.kubernetes.pod.name=p" in command
    assert "--network=host" in command
    assert "--ulimit=nofile=1024:1024" in command
    assert "--log-opt=path=/state/logs/c.log" in command
    assert "--env-file=/state/env" in command
    assert command[-3:] == ['--entrypoint=["/bin/tool"]', "5eed", "--help"]


@pytest.mark.parametrize(
    ("container", "line"),
    [
        pytest.param({}, ["/bin/tool", "--help"], id="neither: the image's"),
        pytest.param({"args": ["a"]}, ["/bin/tool", "a"], id="args take the place of the image's command"),
        pytest.param({"command": ["/x"]}, ["/x"], id="command takes the place of both"),
        pytest.param({"command": ["/x"], "args": ["a"]}, ["/x", "a"], id="both"),
    ],
)
def test_command_and_args_follow_kubernetes_rules(container: dict[str, Any], line: list[str]) -> None:
    assert command_line(IMAGE, request(**container), {}) == line


def test_the_image_map_appends_arguments_to_its_executables() -> None:
    appended = {"/bin/tool": ["--bind-address=127.10.0.1"]}
    assert command_line(IMAGE, request(args=["a"]), appended) == ["/bin/tool", "a", "--bind-address=127.10.0.1"]
    assert command_line(IMAGE, request(command=["/x"]), appended) == ["/x"]
    assert command_line(ImageConfig(id="0"), request(), appended) == []


@pytest.mark.parametrize(
    ("pod", "own", "options"),
    [
        pytest.param({}, {}, [], id="nothing container_request"),
        pytest.param({"runAsUser": 7}, {}, ["--user=7"], id="the pod's user"),
        pytest.param({"runAsUser": 7}, {"runAsUser": 8, "runAsGroup": 9}, ["--user=8:9"], id="the container's first"),
        pytest.param(
            {"fsGroup": 5, "supplementalGroups": [6]}, {}, ["--group-add=6", "--group-add=5"], id="further groups"
        ),
        pytest.param(
            {}, {"readOnlyRootFilesystem": True}, ["--read-only", "--read-only-tmpfs=false"], id="read-only root"
        ),
        pytest.param(
            {}, {"allowPrivilegeEscalation": False}, ["--security-opt=no-new-privileges"], id="no new privileges"
        ),
        pytest.param(
            {}, {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
            ["--cap-drop=all", "--cap-add=net_bind_service"], id="capabilities",
        ),
        pytest.param({"seccompProfile": {"type": "RuntimeDefault"}}, {}, [], id="podman's own profile"),
        pytest.param(
            {"seccompProfile": {"type": "RuntimeDefault"}}, {"seccompProfile": {"type": "Unconfined"}},
            ["--security-opt=seccomp=unconfined"], id="no seccomp profile",
        ),
    ],
)  # fmt: skip
def test_security_contexts_become_options(pod: Obj, own: Obj, options: list[str]) -> None:
    plain = arguments(request())
    command = arguments(request({"securityContext": pod}, securityContext=own))
    assert [option for option in command if option not in plain] == options


@pytest.mark.parametrize(
    ("controllers", "options"),
    [
        ({"cpu", "memory"}, ["--memory=67108864b", "--memory-swap=67108864b", "--cpu-period=100000",
                             "--cpu-quota=50000", "--cpu-shares=102"]),
        ({"memory"}, ["--memory=67108864b", "--memory-swap=67108864b"]),
        (set(), []),
    ],
)  # fmt: skip
def test_limits_are_set_where_cgroups_allow(controllers: set[str], options: list[str]) -> None:
    place = ContainerPlacement(
        **{name: getattr(PLACE, name) for name in PLACE.__slots__} | {"controllers": controllers}
    )
    container_request = request(resources={"limits": {"memory": "64Mi", "cpu": "500m"}, "requests": {"cpu": "100m"}})
    command = arguments(container_request, place)
    assert [option for option in command if option.startswith(("--memory", "--cpu"))] == options


def test_volumes_are_mounted_as_they_ask() -> None:
    mounts = (VolumeMount("/etc/config", "/v/config", True), VolumeMount("/scratch", "/v/scratch", False))
    command = arguments(request(mounts=mounts))
    assert [option for option in command if option.startswith("--volume")] == [
        "--volume=/v/config:/etc/config:ro",
        "--volume=/v/scratch:/scratch:rw",
    ]


@pytest.mark.parametrize("mount", [VolumeMount("/a:/b", "/v", True), VolumeMount("/a", "/v/x:/etc", False)])
def test_a_path_that_would_be_read_as_several_is_refused(mount: VolumeMount) -> None:
    with pytest.raises(ContainerConfigError, match="colon"):
        arguments(request(mounts=(mount,)))


def test_nothing_of_a_pod_becomes_an_option_of_podman() -> None:
    hostile = "--privileged"
    command = arguments(
        request(command=[hostile], args=[hostile], workingDir=hostile, environment={"A": hostile}), PLACE
    )
    image = command.index(IMAGE.id)
    assert hostile not in command[:image]
    assert command[image + 1 :] == [hostile]


def test_the_environment_goes_through_a_file() -> None:
    text, options = environment_file(request(environment={"A": "b c = d", "EMPTY": ""}))
    assert (text, options) == ("A=b c = d\nEMPTY=\n", [])


def test_a_value_of_several_lines_is_an_option_unless_it_may_be_a_secret() -> None:
    lines = {"CA": "one\ntwo"}
    assert environment_file(request(environment=lines)) == ("", ["--env=CA=one\ntwo"])
    secret = [{"name": "CA", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    for takes in ({"env": secret}, {"envFrom": [{"secretRef": {"name": "s"}}]}):
        with pytest.raises(ContainerConfigError, match="mount the Secret as a volume") as refusal:
            environment_file(request(environment=lines, **takes))
        assert "two" not in str(refusal.value)


@pytest.mark.parametrize("name", ["#comment", " a", "a b", "*"])
def test_a_name_that_the_file_would_not_hold_is_refused(name: str) -> None:
    with pytest.raises(ContainerConfigError, match="env"):
        environment_file(request(environment={name: "x"}))


@pytest.mark.parametrize(("user", "number"), [("", None), ("65532:65532", 65532), ("0", 0), ("nobody:x", "nobody")])
def test_the_user_of_an_image_is_a_number_or_a_name(user: str, number: int | str | None) -> None:
    assert ImageConfig(id="0", user=user).user_number == number


def test_who_must_not_be_root_needs_an_image_with_a_numeric_user() -> None:
    container_request = request({"securityContext": {"runAsNonRoot": True}})
    with pytest.raises(ContainerConfigError, match=r"non-numeric user \(nobody\)"):
        container_security(container_request.pod, container_request.container, "nobody")
    assert container_security(container_request.pod, container_request.container, 65532).uid == 65532


def test_a_log_of_a_runtime_is_read_without_its_times() -> None:
    lines = ("1+00:00 stdout F one", "2+00:00 stderr P tw", "3+00:00 stderr F o")
    text = "".join(f"2026-01-01T00:00:00.{line}\n" for line in lines).encode()
    for step in (1, 7, len(text)):
        decode = CriDecoder()
        assert b"".join(decode(text[at : at + step]) for at in range(0, len(text), step)) == b"one\ntwo\n"
    # What was begun in the middle of a line says nothing of that line.
    assert CriDecoder()(text[5:]) == b"two\n"


def test_what_podman_says_last_is_the_reason() -> None:
    assert last_line("warning\nError: runc: no such file\n\n") == "runc: no such file"
    assert last_line("") == "it says nothing"


# --- what must be there before a cluster starts -----------------------------------------------------------------------


def put_podman(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program of that name, alone on PATH, that runs a shell script."""
    program = directory / "podman"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(directory))


def test_without_podman_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError) as refusal:
        nodes.require_podman()
    assert str(refusal.value) == (
        "pods cannot be containers: podman is not on PATH; on Debian: apt-get install podman runc; "
        "or start the cluster without podman, with pods as processes"
    )


def test_without_runc_the_refusal_has_podmans_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_podman(
        tmp_path, monkeypatch, """echo 'Error: default OCI runtime "runc" not found: invalid argument' >&2; exit 125"""
    )
    with pytest.raises(
        ServiceError, match='runc here: default OCI runtime "runc" not found: invalid argument; or start'
    ):
        nodes.require_podman()


def test_without_the_images_the_refusal_names_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = """case "$*" in *version*) echo 4.3.1;; *kube-scheduler*) exit 0;; *) exit 1;; esac"""
    put_podman(tmp_path, monkeypatch, script)
    with pytest.raises(
        ServiceError, match=r"no image localhost/secondary-scheduler/operator:[^,]+: build it with `make image`"
    ):
        nodes.require_podman()


@pytest.mark.parametrize("version", ["3.4.7", "", "a new one"])
def test_another_version_of_podman_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    put_podman(tmp_path, monkeypatch, f"echo '{version}'")
    with pytest.raises(PodmanUnavailableError, match=f"podman is {version or 'of no version'}: use 4 or newer"):
        find_podman()


def test_controllers_are_those_that_the_user_may_use(tmp_path: Path) -> None:
    first, second = tmp_path / "v1", tmp_path / "v2"
    for name in ("cpu", "memory"):
        (first / name).mkdir(parents=True)
    assert cgroup_controllers(first, 0) == {"cpu", "memory"}
    assert cgroup_controllers(first, 1000) == set()
    delegated = second / "user.slice/user-1000.slice/user@1000.service"
    delegated.mkdir(parents=True)
    (second / "cgroup.controllers").write_text("cpu io memory\n")
    (delegated / "cgroup.controllers").write_text("memory\n")
    assert cgroup_controllers(second, 0) == {"cpu", "io", "memory"}
    assert cgroup_controllers(second, 1000) == {"memory"}
    assert cgroup_controllers(second, 1001) == set()


def test_only_the_containers_of_the_cluster_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours, others = tmp_path / "clusters/a", tmp_path / "clusters/ab"
    log = tmp_path / "log"
    listing = f"1 {ours}/data/real-0\n2 {others}/data/real-0\n3 <no value>\n4 {ours}/data/real-1"
    put_podman(tmp_path, monkeypatch, f"""case "$1" in ps) echo '{listing}';; *) echo "$@" >> {log};; esac""")
    nodes.remove_containers(ours, known=Containers.PODMAN)
    assert log.read_text() == "rm --force --ignore --volumes --time=0 1 4\n"


def test_a_cluster_of_processes_does_not_ask_podman(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_podman(tmp_path, monkeypatch, "exit 1")
    nodes.remove_containers(tmp_path, known=Containers.PROCESSES)
    nodes.remove_containers(tmp_path, known=None)
    with pytest.raises(ServiceError, match="podman ps --all"):
        nodes.remove_containers(tmp_path, known=Containers.PODMAN)


@pytest.mark.parametrize("chosen", ["processes", "podman"])
def test_the_agents_of_a_cluster_are_told_what_containers_are(tmp_path: Path, chosen: Containers) -> None:
    layout = Layout(tmp_path)
    (tmp_path / "data").mkdir()
    assert f"--containers={chosen}" in node_agent("real-0", 0, layout, "127.9", chosen).argv


def test_a_cluster_that_was_recorded_before_there_was_podman_has_processes() -> None:
    recorded = {"name": "a", "nodes": 0, "real_nodes": 1, "ports": {}, "pod_network": "127.9"}
    assert RecordedCluster.model_validate(recorded).containers == "processes"
