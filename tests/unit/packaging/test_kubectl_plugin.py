"""The archive and the manifest that krew gets. That krew installs them: tests/integration/packaging."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from scheduler import __version__
from tools import kubectl_plugin
from tools.locked_wheels import WheelTarget, requirements, unpack
from tools.wheels import BuildError

DIGEST = "0" * 64
LOCK = f"""\
# written by uv
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:{DIGEST}
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:{DIGEST}
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{DIGEST}
idna==3.20 \\
    --hash=sha256:{DIGEST}
"""


@pytest.mark.parametrize(("python", "numpy"), [("3.11", "2.4.6"), ("3.13", "2.5.5")])
def test_the_markers_of_a_lock_are_those_of_the_target(tmp_path: Path, python: str, numpy: str) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    hashed = f" \\\n    --hash=sha256:{DIGEST}\n"
    assert requirements(lock, WheelTarget(python, "aarch64")) == f"numpy=={numpy}{hashed}idna==3.20{hashed}"


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_wheel_is_unpacked_without_its_scripts(tmp_path: Path) -> None:
    parts = {"a/__init__.py": "1", "a-1.data/scripts/a": "2", "a-1.data/purelib/b.py": "3", "a-1.data/headers/a.h": "4"}
    unpack([wheel(tmp_path / "a.whl", parts)], tmp_path / "out")
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"a/__init__.py", "b.py"}


def test_a_wheel_that_leads_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"a\.whl: \.\./b\.py leads out"):
        unpack([wheel(tmp_path / "a.whl", {"../b.py": "1"})], tmp_path / "out")


def test_an_archive_depends_on_the_content_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    sums = []
    for number, names in enumerate((("b", "a/c"), ("a/c", "b"))):
        directory = tmp_path / str(number)
        for name in names:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(name)
        sums.append(kubectl_plugin.pack(directory, tmp_path / f"{number}.tar.gz"))
    assert sums[0] == sums[1]
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        assert [(each.name, each.mtime, each.uid) for each in archive] == [
            ("a/c", 1000000000, 0),
            ("b", 1000000000, 0),
        ]


def test_the_manifest_keeps_krews_rules() -> None:
    sums = {"amd64": ("x-amd64.tar.gz", DIGEST), "arm64": ("x-arm64.tar.gz", DIGEST)}
    plugin = kubectl_plugin.manifest("https://downloads.example.com/v1/", sums, ["3.11", "3.12"])
    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert re.fullmatch(r"[\w-]+", plugin["metadata"]["name"])
    spec = plugin["spec"]
    assert spec["version"] == f"v{__version__}"
    assert 0 < len(spec["shortDescription"]) <= 60
    assert "\n" not in spec["shortDescription"]
    for platform in spec["platforms"]:
        assert set(platform["selector"]["matchLabels"]) == {"os", "arch"}
        assert re.fullmatch(r"[a-f0-9]{64}", platform["sha256"])
        assert platform["uri"].startswith("https://downloads.example.com/v1/x-")
        assert platform["bin"] == "kubectl-secondary_scheduler"


def test_an_address_that_krew_would_refuse_is_a_mistake_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        kubectl_plugin.main(["--uri", "http://downloads.example.com"])
    assert ended.value.code == 2
    assert "krew fetches from https:// only" in capsys.readouterr().err


def test_the_launcher_names_the_pythons_that_it_needs(tmp_path: Path) -> None:
    launcher = tmp_path / kubectl_plugin.BINARY
    launcher.write_text(kubectl_plugin.LAUNCHER.format(versions=("2.9", "2.10"), binary=kubectl_plugin.BINARY))
    done = subprocess.run([sys.executable, "-I", str(launcher)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert done.stderr == (f"kubectl-secondary_scheduler: needs Python 2.9 or 2.10 on PATH, where python3 is {own}\n")
