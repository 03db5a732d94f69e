"""Which version of Kubernetes is next, and what its module is made of; with a stand-in for `go`."""

import json
import os
from pathlib import Path

import pytest

from devcluster.errors import BinaryError
from devcluster.progress import SilentReporter
from devcluster.toolchain import golang, upcoming
from devcluster.toolchain.upcoming import Version, newest_above, version_of

REPORT = SilentReporter()
SERVED = [
    "v1.36.3",
    "v1.37.0",
    "v1.37.2",
    "v1.38.0-alpha.3",
    "v1.38.0-beta.0",
    "v1.9.0",
    "v0.0.0-2020",
    "v1.38.0-foo.1",
]


def known(text: str) -> Version:
    version = version_of(text)
    assert version is not None
    return version


@pytest.mark.parametrize(
    ("newest", "served", "expected"),
    [
        ("1.37.0", SERVED, "1.38.0-beta.0"),
        ("1.37.0", [*SERVED, "v1.38.0-rc.0"], "1.38.0-rc.0"),
        ("1.38.0-beta.0", [*SERVED, "v1.38.0"], "1.38.0"),
        ("1.38.0-beta.0", [*SERVED, "v1.38.0", "v1.39.0-alpha.0"], "1.39.0-alpha.0"),
        ("1.38.0-beta.0", SERVED, None),
        ("1.37.0", ["v1.37.2", "v1.36.9"], None),
        ("1.37.0", [], None),
    ],
)
def test_the_next_version_is_the_newest_that_is_not_a_known_minors_patch(
    newest: str, served: list[str], expected: str | None
) -> None:
    version = newest_above(known(newest), served)
    assert (version.text if version else None) == expected


def test_modules_that_are_released_with_kubernetes_have_its_version_with_a_0() -> None:
    assert known("v1.38.0-beta.0").staging == "v0.38.0-beta.0"
    assert known("1.37.2").staging == "v0.37.2"


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `go` that serves what the test writes, and notes the go.mod that it is asked to build."""
    required = ["k8s.io/api v0.0.0", "k8s.io/ktesting v0.0.0 // indirect", "k8s.io/utils v0.0.0-20250820121507-0af2bda"]
    lines = "".join(f"\t{each}\n" for each in required)
    (tmp_path / "kubernetes.mod").write_text(f"module k8s.io/kubernetes\n\ngo 1.27.0\n\nrequire (\n{lines})\n")
    answer = json.dumps({"GoMod": str(tmp_path / "kubernetes.mod")})
    go = tmp_path / "go"
    go.write_text(f"""#!/bin/sh
case "$*" in
'mod download'*) echo '{answer}';;
'list -m -e'*)
  shift 5
  for each; do
    name=${{each%@*}}
    grep -q "$name" {tmp_path}/absent && echo "$name absent" || echo "$name "
  done;;
*) echo k8s.io/kubernetes v1.37.0 v1.38.0-beta.0;;
esac
""")
    go.chmod(0o755)
    (tmp_path / "absent").write_text("")
    monkeypatch.setattr(golang, "find_go", lambda *_: go)
    monkeypatch.setattr(upcoming, "cache_root", lambda: tmp_path / "cache")
    return tmp_path


def test_versions_are_asked_of_the_go_command(proxy: Path) -> None:
    assert upcoming.published(REPORT) == ["v1.37.0", "v1.38.0-beta.0"]


def test_a_module_that_is_missing_is_named_and_nothing_is_built(proxy: Path) -> None:
    (proxy / "absent").write_text("k8s.io/api\n")
    with pytest.raises(BinaryError, match=r"the Go module proxy lacks k8s\.io/api v0\.99\.0-alpha\.1$"):
        upcoming.build(known("1.99.0-alpha.1"), REPORT)
    assert not (proxy / "cache").exists()


def test_what_is_built_has_the_modules_of_its_version(proxy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def note(_go: Path, module: Path, _package: str, _ldflags: str, output: Path, **_: object) -> None:
        built.append((module / "go.mod").read_text())
        output.parent.mkdir(parents=True)
        output.touch()

    monkeypatch.setattr(golang, "add_requirements", lambda *_: None)
    monkeypatch.setattr(golang, "build", note)
    for _ in range(2):
        path = upcoming.build(known("1.99.0-alpha.1"), REPORT)
    assert path == proxy / "cache/upcoming/1.99.0-alpha.1/kube-scheduler"
    (text,) = built
    assert "go 1.27.0" in text
    assert "require k8s.io/kubernetes v1.99.0-alpha.1" in text
    assert "k8s.io/api => k8s.io/api v0.99.0-alpha.1" in text
    assert "k8s.io/utils" not in text
    assert os.access(path, os.R_OK)
