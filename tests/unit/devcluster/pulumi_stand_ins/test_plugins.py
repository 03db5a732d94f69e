"""Which official plugins are there, which stand-ins are linked, and how programs are started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.pulumi_stand_ins import BIN, KUBERNETES_PROVIDER, LANGUAGE_HOST
from devcluster.pulumi_stand_ins.kubernetes_provider.servicer import type_of, unsupported
from devcluster.pulumi_stand_ins.language_host import shim
from devcluster.pulumi_stand_ins.language_host.program import (
    Package,
    ProgramRun,
    Programs,
    interpreter,
    required_packages,
)
from tests.support.stand_ins import BOTH, FILES, link_stand_ins, missing_official_plugins
from tests.support.waiting import PATIENCE_SECONDS


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def missing(tmp_path: Path, *directories: Path) -> frozenset[str]:
    return missing_official_plugins(os.pathsep.join(map(str, directories)), tmp_path / "home")


def test_stand_ins_are_executable_files() -> None:
    names = {path.name for path in BIN.iterdir()}
    assert names == {name for files in FILES.values() for name in files}
    assert all(os.access(path, os.X_OK) for path in BIN.iterdir())


def test_nothing_official_is_found_where_there_are_only_stand_ins(tmp_path: Path) -> None:
    link_stand_ins(tmp_path / "linked", BOTH)
    assert missing(tmp_path, tmp_path / "linked", BIN) == BOTH


def test_an_official_plugin_on_path_counts(tmp_path: Path) -> None:
    executable(tmp_path / "bin" / KUBERNETES_PROVIDER)
    assert missing(tmp_path, BIN, tmp_path / "bin") == {LANGUAGE_HOST}


def test_an_official_plugin_beside_pulumi_counts_through_a_link(tmp_path: Path) -> None:
    executable(tmp_path / "opt" / LANGUAGE_HOST)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").symlink_to(executable(tmp_path / "opt" / "pulumi"))
    assert missing(tmp_path, tmp_path / "bin") == {KUBERNETES_PROVIDER}


def test_an_official_plugin_in_pulumis_cache_counts(tmp_path: Path) -> None:
    executable(tmp_path / "home" / "plugins" / "resource-kubernetes-v4.30.0" / KUBERNETES_PROVIDER)
    assert missing(tmp_path) == {LANGUAGE_HOST}


def test_only_the_asked_for_stand_ins_are_linked_and_old_links_go(tmp_path: Path) -> None:
    link_stand_ins(tmp_path, BOTH)
    links = link_stand_ins(tmp_path, frozenset({KUBERNETES_PROVIDER}))
    assert [link.name for link in links] == [KUBERNETES_PROVIDER]
    assert [path.name for path in tmp_path.iterdir()] == [KUBERNETES_PROVIDER]


def test_a_stand_in_finds_its_python_from_any_directory_and_through_a_link(tmp_path: Path) -> None:
    link_stand_ins(tmp_path / "bin", BOTH)
    # A module of the same name as one of ours, in the directory that the engine starts plugins in.
    (tmp_path / "grpc.py").write_text("raise SystemExit('shadowed')\n")
    with subprocess.Popen(
        [str(tmp_path / "bin" / LANGUAGE_HOST), "127.0.0.1:1"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "SECONDARY_SCHEDULER_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip().isdigit()
        process.send_signal(2)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("kubernetes:core/v1:ConfigMap", ("v1", "ConfigMap")),
        ("kubernetes:apps/v1:Deployment", ("apps/v1", "Deployment")),
        ("kubernetes:operator.openshift.io/v1:SecondaryScheduler", ("operator.openshift.io/v1", "SecondaryScheduler")),
    ],
)
def test_type_tokens(token: str, expected: tuple[str, str]) -> None:
    assert type_of(token) == expected


def test_types_that_only_the_official_provider_has_are_named() -> None:
    assert "use the official plugin" in str(unsupported("kubernetes:helm.sh/v3:Release", ""))
    assert "use the official plugin" in str(unsupported("kubernetes:core/v1:ConfigMapPatch", "ConfigMap"))
    assert unsupported("kubernetes:example.com/v1:Patch", "Patch") is None


def run(directory: Path, entry_point: str = ".", **config: str) -> ProgramRun:
    return ProgramRun(
        project="p",
        stack="s",
        organization="o",
        root_directory=str(directory),
        working_directory=str(directory),
        entry_point=entry_point,
        monitor="127.0.0.1:1",
        engine="127.0.0.1:2",
        parallel=4,
        dry_run=True,
        config=config,
        secret_keys=["p:token"],
        arguments=["--flag"],
    )


def test_a_run_hands_configuration_over_in_the_environment(tmp_path: Path) -> None:
    environment = run(tmp_path, **{"p:a": "1"}).environment()
    assert environment["PULUMI_CONFIG"] == '{"p:a": "1"}'
    assert environment["PULUMI_CONFIG_SECRET_KEYS"] == '["p:token"]'


def test_a_run_speaks_the_official_shims_flags(tmp_path: Path) -> None:
    command = run(tmp_path).command("/python")
    assert command[:2] == ["/python", "-u"]
    assert command[command.index("--dry_run") + 1] == "true"
    assert command[-2:] == [".", "--flag"]


def test_the_virtualenv_of_the_project_is_used_where_it_exists(tmp_path: Path) -> None:
    assert interpreter(str(tmp_path), {"virtualenv": "venv"}) == sys.executable
    python = executable(tmp_path / "venv" / "bin" / "python")
    assert interpreter(str(tmp_path), {"virtualenv": "venv"}) == str(python)
    assert interpreter(str(tmp_path), {}) == sys.executable


def test_stopping_ends_programs_and_lets_none_start() -> None:
    programs = Programs()
    programs.stop()
    assert programs.run(run(Path("/")), sys.executable) < 0
    assert programs.stopped


def test_required_packages_are_those_with_a_plugin_file_that_asks_for_one(tmp_path: Path) -> None:
    for name, text in (
        ("pulumi_kubernetes", '{"resource": true, "name": "kubernetes", "version": "4.30.0"}'),
        ("pulumi_helper", '{"resource": false, "name": "helper"}'),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pulumi-plugin.json").write_text(text)
    assert required_packages([str(tmp_path)]) == [Package("kubernetes", "v4.30.0", "")]
    assert required_packages(sys.path) == [Package("kubernetes", "v4.30.0", "")]


def test_the_sdks_waiting_loop_is_slowed_down_only_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(shim.time, "sleep", slept.append)
    queue = shim._PatientQueue()
    for item in ("a", "b"):
        queue.append(item)
    assert slept == []
    queue.append(queue.popleft())
    assert slept == []
    for _ in range(2000):
        queue.append(queue.popleft())
    assert 0 < slept[0] < slept[1] < slept[-1] == shim._MAX_PAUSE_SECONDS
    assert len(slept) == 1000
    assert sorted(queue) == ["a", "b"]
    queue.append("new")
    slept.clear()
    for _ in range(3):
        queue.append(queue.popleft())
    assert slept == [shim._PAUSE_STEP_SECONDS]
