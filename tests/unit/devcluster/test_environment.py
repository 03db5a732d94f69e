from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import environment
from devcluster.layout import Layout


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    (tmp_path / "it's a cluster" / "bin").mkdir(parents=True)
    (tmp_path / "it's a cluster" / "pulumi").mkdir()
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi-home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return Layout(tmp_path / "it's a cluster")


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_shell_reads_back_exactly_what_is_exported(layout: Layout) -> None:
    values = environment.variables(layout, "https://127.0.0.1:1", {"PATH": "/usr/bin:/bin"})
    script = environment.export_lines(values) + "env -0"
    output = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True, env={}).stdout
    read = dict(pair.split("=", 1) for pair in output.decode().split("\0") if pair)
    assert {name: read.get(name) for name in values} == values


def test_the_variables_are_those_promised(layout: Layout) -> None:
    values = environment.variables(layout, "https://127.0.0.1:1", {"PATH": "/usr/bin"})
    assert set(values) == {
        "KUBECONFIG",
        "PULUMI_BACKEND_URL",
        "PULUMI_HOME",
        "PULUMI_CONFIG_PASSPHRASE",
        "PULUMI_SKIP_UPDATE_CHECK",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION",
        "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING",
        "SECONDARY_SCHEDULER_PROMETHEUS_URL",
        "SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE",
        "SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE",
        "PATH",
    }
    assert values["PULUMI_BACKEND_URL"].startswith("file://")


def test_without_prometheus_its_variables_are_absent(layout: Layout) -> None:
    assert not [name for name in environment.variables(layout, None, {}) if "PROMETHEUS" in name]


def test_the_catalog_is_named_where_there_is_one(layout: Layout) -> None:
    values = environment.variables(layout, None, {}, olm_catalog="127.0.0.1:2")
    assert values["SECONDARY_SCHEDULER_OLM_CATALOG"] == "127.0.0.1:2"


def test_path_has_ours_in_front_once_however_often_it_is_evaluated(layout: Layout) -> None:
    once = environment.variables(layout, None, {"PATH": "/usr/bin:/bin"})
    assert environment.variables(layout, None, once) == once
    assert once["PATH"].split(os.pathsep)[:2] == [str(layout.bin), str(Path(sys.executable).parent)]


def links(layout: Layout) -> set[str]:
    return {path.name for path in layout.bin.iterdir()}


def test_stand_ins_are_offered_where_pulumis_own_plugins_are_absent(layout: Layout, tmp_path: Path) -> None:
    environment.link_tools(layout, {"kubectl": Path("/k"), "pulumi": executable(tmp_path / "tools" / "pulumi")})
    assert links(layout) == {"kubectl", "pulumi", "pulumi-language-python", "pulumi-resource-kubernetes"}
    assert not (layout.root / "pulumi" / "home" / "plugins").exists()


def test_an_official_language_host_beside_pulumi_is_used(layout: Layout, tmp_path: Path) -> None:
    executable(tmp_path / "tools" / "pulumi-language-python")
    environment.link_tools(layout, {"pulumi": executable(tmp_path / "tools" / "pulumi")})
    assert links(layout) == {"pulumi", "pulumi-resource-kubernetes"}


def test_an_installed_official_provider_is_used_and_stays_visible(layout: Layout, tmp_path: Path) -> None:
    plugin = tmp_path / "pulumi-home" / "plugins" / "resource-kubernetes-v4.30.0"
    plugin.mkdir(parents=True)
    environment.link_tools(layout, {"pulumi": executable(tmp_path / "tools" / "pulumi")})
    assert links(layout) == {"pulumi", "pulumi-language-python"}
    assert (layout.root / "pulumi" / "home" / "plugins" / plugin.name).is_dir()


def test_official_plugins_on_path_are_used(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pulumi-language-python", "pulumi-resource-kubernetes"):
        executable(tmp_path / "official" / name)
    monkeypatch.setenv("PATH", str(tmp_path / "official"))
    environment.link_tools(layout, {})
    assert links(layout) == set()


def test_another_clusters_links_are_not_taken_for_installed_plugins(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pulumi-language-python", "pulumi-resource-kubernetes"):
        executable(tmp_path / "clusters" / "other" / "bin" / name)
    (tmp_path / "clusters" / "other" / "cluster.json").write_text("{}")
    monkeypatch.setenv("PATH", str(tmp_path / "clusters" / "other" / "bin"))
    environment.link_tools(layout, {})
    assert links(layout) == {"pulumi-language-python", "pulumi-resource-kubernetes"}
