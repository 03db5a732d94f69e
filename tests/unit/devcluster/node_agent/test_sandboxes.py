"""Plans and rewriting of the sandbox tiers, without starting anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from devcluster.node_agent import logs
from devcluster.node_agent.sandbox import LaunchRequest, VolumeMount
from devcluster.node_agent.sandbox.directory import DirectorySandbox, PathRewriter
from devcluster.node_agent.sandbox.launcher import exit_code, is_descendant
from devcluster.node_agent.sandbox.mounts import HostEntry, plan_root
from devcluster.node_agent.security import Security

HOST: dict[str, list[HostEntry]] = {
    "/": [
        HostEntry("bin", False, "usr/bin"), HostEntry("dev", True), HostEntry("etc", True), HostEntry("proc", True),
        HostEntry("root", True), HostEntry("run", True), HostEntry("sys", True), HostEntry("tmp", True),
        HostEntry("usr", True), HostEntry("var", True),
    ],
    "/etc": [HostEntry("hosts", False), HostEntry("ssl", True), HostEntry("mtab", False, "/proc/mounts")],
    "/var": [HostEntry("lib", True), HostEntry("run", False, "/run"), HostEntry("tmp", True)],
    "/run": [HostEntry("docker.sock.d", True)],
    "/root": [HostEntry("agent", True), HostEntry("kubeconfig", False)],
    "/root/agent": [],
    "/tmp": [HostEntry("clone", True)],
    "/tmp/clone": [HostEntry("state", True)],
    "/tmp/clone/state": [],
}  # fmt: skip


def plan(*mounts: VolumeMount, **options: Any) -> list[list[Any]]:
    return plan_root(mounts, lister=HOST.get, **options)


def test_host_directories_appear_read_only_and_links_stay_links() -> None:
    operations = plan()
    assert ["bind", "/usr", "/usr", True] in operations
    assert ["symlink", "/bin", "usr/bin"] in operations
    assert ["proc", "/proc"] in operations
    assert all(
        operation[3] for operation in operations if operation[0] == "bind" and not operation[1].startswith("/dev/")
    )


def test_hosts_run_and_tmp_are_not_shown() -> None:
    operations = plan()
    sources = [operation[2] for operation in operations if operation[0] == "bind"]
    assert not [source for source in sources if source.startswith(("/run", "/tmp", "/var/tmp"))]
    assert ["dir", "/tmp", 0o1777] in operations


def test_directory_is_opened_for_a_mount_point_the_host_lacks() -> None:
    operations = plan(VolumeMount("/etc/kubernetes", "/state/v", True))
    opened = operations.index(["dir", "/etc", 0o755])
    assert operations.index(["bind", "/etc/ssl", "/etc/ssl", True]) > opened
    assert ["symlink", "/etc/mtab", "/proc/mounts"] in operations
    assert operations.index(["bind", "/etc/kubernetes", "/state/v", True]) > opened
    assert ["bind", "/etc", "/etc", True] not in operations


def test_mount_point_below_a_link_is_made_where_the_link_leads() -> None:
    operations = plan(VolumeMount("/var/run/secrets/token", "/state/t", True))
    assert ["bind", "/run/secrets/token", "/state/t", True] in operations
    assert ["symlink", "/var/run", "/run"] in operations


def test_mount_inside_a_mount_comes_after_it() -> None:
    operations = plan(VolumeMount("/data/inner", "/state/b", True), VolumeMount("/data", "/state/a", False))
    outer = operations.index(["bind", "/data", "/state/a", False])
    assert operations.index(["bind", "/data/inner", "/state/b", True]) > outer


def test_environment_under_a_covered_directory_stays_visible() -> None:
    mounted = plan(VolumeMount("/tmp", "/state/tmp", False), visible=["/tmp/clone", "/usr/lib/python"])
    assert mounted.index(["bind", "/tmp/clone", "/tmp/clone", True]) > mounted.index(
        ["bind", "/tmp", "/state/tmp", False]
    )
    assert ["bind", "/usr/lib/python", "/usr/lib/python", True] not in mounted
    assert ["bind", "/tmp/clone", "/tmp/clone", True] in plan(visible=["/tmp/clone"])


def test_masked_paths_are_covered_last() -> None:
    operations = plan(masked=["/root/agent", "/root/kubeconfig", "/tmp/elsewhere"])
    assert operations[-3:] == [
        ["tmpfs", "/root/agent", "mode=0000,size=4k"],
        ["ro", "/root/agent"],
        ["bind", "/root/kubeconfig", "/dev/null", True],
    ]


def test_state_within_a_visible_checkout_is_masked_too() -> None:
    operations = plan(visible=["/tmp/clone"], masked=["/tmp/clone/state"])
    assert ["tmpfs", "/tmp/clone/state", "mode=0000,size=4k"] in operations


def test_devices_are_few_and_their_directory_read_only() -> None:
    operations = plan(VolumeMount("/dev/termination-log", "/state/log", False))
    devices = [operation[1] for operation in operations if operation[0] == "bind" and operation[1].startswith("/dev/")]
    assert devices == [
        "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/termination-log",
    ]  # fmt: skip
    assert operations.index(["ro", "/dev"]) > operations.index(["bind", "/dev/termination-log", "/state/log", False])


# --- rewriting --------------------------------------------------------------------------------------------------------
MOUNTS = (
    VolumeMount("/etc/kubernetes", "/s/c", True),
    VolumeMount("/etc", "/s/e", True),
    VolumeMount("/tmp/", "/s/t", False),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("--config=/etc/kubernetes/config.yaml", "--config=/s/c/config.yaml"),
        ("/etc/kubernetes", "/s/c"),
        ("/etc/hosts:/tmp", "/s/e/hosts:/s/t"),
        ("/etcetera /etc-x /etc.d", "/etcetera /etc-x /etc.d"),
        ("/usr/etc/kubernetes", "/usr/etc/kubernetes"),
        ('tokenFile: "/tmp/token"\n', 'tokenFile: "/s/t/token"\n'),
        ("file:///etc/x", "file:///etc/x"),
        ("nothing", "nothing"),
    ],
)
def test_whole_path_components_are_rewritten_longest_first(text: str, wanted: str) -> None:
    assert PathRewriter(MOUNTS).text(text) == wanted


def test_without_mounts_nothing_is_rewritten() -> None:
    assert PathRewriter(()).text("/etc/x") == "/etc/x"


def request(**fields: Any) -> LaunchRequest:
    defaults: dict[str, Any] = {
        "host_command": ("/tmp/venv/python",), "args": ("--config=/tmp/c",), "env": {"A": "/tmp/a"},
        "working_dir": "/none",
        "mounts": MOUNTS, "security": Security(), "hostname": "p",
    }  # fmt: skip
    return LaunchRequest(**{**defaults, **fields})


def test_host_command_is_left_alone(tmp_path: Path) -> None:
    spec = DirectorySandbox(tmp_path).launch_spec(request())
    assert spec["argv"] == ["/tmp/venv/python", "--config=/s/t/c"]
    assert spec["env"] == {"A": "/s/t/a"}
    assert spec["cwd"] == "/"


def test_pods_own_kubeconfig_is_kept_and_a_missing_one_made(tmp_path: Path) -> None:
    account = VolumeMount("/var/run/secrets/kubernetes.io/serviceaccount", "/s/uid-1/volumes/token", True)
    address = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    sandbox = DirectorySandbox(tmp_path)
    generated = sandbox.launch_spec(request(mounts=(account,), env=address))["env"]["KUBECONFIG"]
    assert "tokenFile: '/s/uid-1/volumes/token/token'" in Path(generated).read_text()
    assert "https://127.0.0.1:6443" in Path(generated).read_text()
    own = sandbox.launch_spec(request(mounts=(account,), env={**address, "KUBECONFIG": "/own"}))
    assert own["env"]["KUBECONFIG"] == "/own"


def test_binary_files_are_not_rewritten(tmp_path: Path) -> None:
    sandbox = DirectorySandbox(tmp_path)
    assert sandbox.volume_text(MOUNTS, b"\xff/tmp") == b"\xff/tmp"
    assert sandbox.volume_text(MOUNTS, b"a: /tmp/x") == b"a: /s/t/x"


# --- launcher and logs ------------------------------------------------------------------------------------------------
def test_exit_codes_are_those_of_a_container_runtime() -> None:
    assert [exit_code(3 << 8), exit_code(9), exit_code(15)] == [3, 137, 143]


def test_descendants_are_recognised() -> None:
    parents = {10: 1, 11: 10, 12: 11, 20: 1}
    assert [pid for pid in parents if is_descendant(pid, 10, parents)] == [11, 12]


def test_log_keeps_one_previous_instance_and_its_tail(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "n_p_c.log"
    for text in (b"one\n", b"two\n", b"x" * 3000 + b"\nlast\n"):
        descriptor = logs.open_log(path)
        os.write(descriptor, text)
        os.close(descriptor)
    assert logs.previous(path).read_bytes() == b"two\n"
    assert logs.tail(path).endswith("x\nlast\n")
    assert len(logs.tail(path)) == 2048


def test_log_that_outgrows_its_limit_is_emptied_under_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "n_p_c.log"
    descriptor = logs.open_log(path)
    os.write(descriptor, b"a" * 100)
    assert logs.cap(path, 50)
    os.write(descriptor, b"b")
    os.close(descriptor)
    assert path.read_bytes() == b"b"
    assert path.with_name("n_p_c.log.rotated").read_bytes() == b"a" * 25
    assert logs.cap(path, 50) is False
