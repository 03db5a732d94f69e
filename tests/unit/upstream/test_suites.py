"""Whose tests there are, and what is made ready for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from devcluster import processes
from devcluster.errors import SpecError
from devcluster.progress import SilentReporter
from devcluster.releases import RELEASES
from devcluster.toolchain import binaries
from tests.upstream import edits, running, servers
from tests.upstream.page import table_of_tests
from tests.upstream.results import Results
from tests.upstream.running import Run, Side
from tests.upstream.source import Package, replaced_by
from tests.upstream.suites import KUBERNETES, PLUGINS, suite_of


def test_a_suite_is_that_of_its_kubernetes() -> None:
    plugins = suite_of("scheduler-plugins", RELEASES["1.35"])
    assert (plugins.module, plugins.version[:4], plugins.edited) == (PLUGINS, "0.35", {KUBERNETES, PLUGINS})
    own = suite_of("kube-scheduler", RELEASES["1.35"])
    assert (own.module, own.version, own.edited) == (KUBERNETES, RELEASES["1.35"].version, {KUBERNETES})
    assert "k8s.io/kubernetes v1.35" in (own.requirements / "go.mod").read_text()


def test_a_kubernetes_without_scheduler_plugins_is_refused() -> None:
    with pytest.raises(SpecError, match=r"no scheduler-plugins is made of Kubernetes 1\.37: use 1\.34, 1\.35"):
        suite_of("scheduler-plugins", RELEASES["1.37"])


def test_a_copy_takes_the_place_of_a_module_and_of_its_replacement() -> None:
    rows = ("k8s.io/kubernetes => k8s.io/kubernetes v1.34.4", "k8s.io/kubectl => k8s.io/kubectl v0.34.4")
    text = "\n".join(["module m", "replace (", *(f"\t{row}" for row in rows), ")", ""])
    replaced = replaced_by(text, KUBERNETES, Path("/copy"))
    assert [line.strip() for line in replaced.splitlines() if "=>" in line] == [
        "k8s.io/kubectl => k8s.io/kubectl v0.34.4",
        "replace k8s.io/kubernetes => /copy",
    ]


def test_crds_that_a_module_has_elsewhere_are_installed(tmp_path: Path) -> None:
    # A source like upstream's, as far as the pattern goes.
    file = tmp_path / "test/integration/main_test.go"
    file.parent.mkdir(parents=True)
    file.write_text("\t\tCRDDirectoryPaths: []string{\n\t\t\tdirectory,\n\t\t},\n")
    changed = edits.replaced(tmp_path)
    assert list(changed.values()) == ["\t\tCRDDirectoryPaths: withDefinitions([]string{\n\t\t\tdirectory,\n\t\t}),\n"]


def test_scheduler_plugins_start_the_local_clusters_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "ensure", lambda names, *_: {name: Path("/bin", name) for name in names})
    with servers.servers_of(suite_of("scheduler-plugins", RELEASES["1.34"]), SilentReporter()) as variables:
        assert variables["TEST_ASSET_KUBE_APISERVER"] == "/bin/kube-apiserver"
        assert variables["TEST_ASSET_ETCD"] == "/bin/etcd"


def test_servers_that_a_test_leaves_are_ended(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_text(
        f"#!{sys.executable}\n"
        "import subprocess\n"
        "nowhere = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}\n"
        "server = subprocess.Popen(['sleep', '600'], start_new_session=True, **nowhere)\n"
        "print('--- FAIL: TestServers (0.00s)')\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(server.pid))\n"
    )
    binary.chmod(0o700)
    package = Package("servers", "1.34", binary, tmp_path, {})
    run = running.run(package, "TestServers", Side.GO, {}, tmp_path / "logs")
    assert run.failed == ["TestServers"]
    assert processes.identity(int((tmp_path / "pid").read_text())) is None


def test_a_table_may_have_a_row_for_each_test(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    for side in (Side.GO, Side.SAFE):
        results.add("1.34", "integration", "TestQueue", side, Run(passed=2, started=2))
        results.add("1.34", "integration", "TestSpread", side, Run(passed=1, failed=["TestSpread/a"], started=1))
    lines = table_of_tests(results, "1.34", ["integration"]).splitlines()[2:]
    assert lines == [
        "| `TestQueue` | 2 of 2 | not run | 2 of 2 | 0 |",
        "| `TestSpread` | 1 of 2 | not run | 1 of 2 | 0 |",
        "| all | 3 of 4 | not run | 3 of 4 |  |",
    ]
