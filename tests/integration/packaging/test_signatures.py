"""An image in a registry, signed with a local key, with bill of materials and provenance: it is verified, and no longer
once something is another than was signed.

cosign, and crane as registry and client, are built for these tests. The registry is a process of this machine, and what
is pushed is a small image: what an image holds does not matter to its signature.
"""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.progress import SilentReporter
from devcluster.toolchain.binaries import ensure
from tools import sign
from tools.sign import CYCLONEDX, PROVENANCE, STATEMENT, Cosign, SignError

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

COMMIT = "c" * 40
BILL = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"name": "numpy", "version": "2.4.6"}]}
PASSWORD = "of-the-key"


@dataclass
class Registry:
    """A registry, and programs to push to it and to sign in it."""

    address: str
    crane: Path
    cosign: Path
    directory: Path

    def push(self, tag: str, content: str) -> str:
        """Push an image with one file; returns its name by digest."""
        layer = self.directory / "layer.tar"
        with tarfile.open(layer, "w") as archive:
            entry = tarfile.TarInfo("content")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
        command = [self.crane, "append", "--oci-empty-base", "--new_layer", layer, "--new_tag", f"{self.address}/{tag}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def statements(self, image: str) -> list[dict[str, Any]]:
        """What is attached to an image, verified or not."""
        output = Cosign(self.cosign)("download", "attestation", image)
        return [json.loads(base64.b64decode(json.loads(line)["payload"])) for line in output.splitlines()]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    programs = ensure(["cosign", "crane"], SilentReporter())
    directory = tmp_path_factory.mktemp("registry")
    # It says which port it got, and then one line for each request: a file takes them all.
    with (directory / "log").open("w") as log:
        command = [programs["crane"], "registry", "serve", "--address", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                port = process.stderr.readline().split()[-1]
                yield Registry(f"127.0.0.1:{port}", programs["crane"], programs["cosign"], directory)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def keys(registry: Registry) -> dict[str, Path]:
    """The directories of two key pairs."""
    directories = {name: registry.directory / name for name in ("ours", "theirs")}
    for directory in directories.values():
        directory.mkdir()
        Cosign(registry.cosign, PASSWORD)("generate-key-pair", directory=directory)
    return directories


@dataclass
class Signed:
    """The command line, with this test's cosign, password and commit."""

    registry: Registry
    keys: dict[str, Path]
    bill: Path

    def sign(self, image: str, by: str = "ours") -> int:
        return sign.main(["sign", "--key", str(self.keys[by] / "cosign.key"), "--sbom", str(self.bill), image])

    def verify(self, image: str, *options: str, by: str = "ours") -> int:
        return sign.main(["verify", "--key", str(self.keys[by] / "cosign.pub"), *options, image])


@pytest.fixture
def signed(registry: Registry, keys: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Signed:
    answers = {"status": "", "rev-parse": COMMIT}
    monkeypatch.setattr(sign, "_git", lambda *arguments: answers[arguments[0]])
    monkeypatch.setenv("PATH", f"{registry.cosign.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COSIGN_PASSWORD", PASSWORD)
    (tmp_path / "sbom.cdx.json").write_text(json.dumps(BILL))
    return Signed(registry, keys, tmp_path / "sbom.cdx.json")


def test_what_was_signed_is_verified(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    image = signed.registry.push("a/scheduler:1", "what was built")
    assert signed.sign(image) == 0
    capsys.readouterr()
    assert (
        signed.verify(f"{signed.registry.address}/a/scheduler:1", "--sbom", str(signed.bill), "--commit", COMMIT) == 0
    )
    assert capsys.readouterr().out.splitlines() == [
        f"{image}: signed by this key",
        "bill of materials: 1 components",
        f"provenance: built from commit {COMMIT}",
    ]
    statements = {each["predicateType"]: each for each in signed.registry.statements(image)}
    assert set(statements) == {CYCLONEDX, PROVENANCE}
    assert {each["_type"] for each in statements.values()} == {STATEMENT}
    assert statements[CYCLONEDX]["predicate"] == BILL


def test_another_image_under_the_tag_fails(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    tag = "b/scheduler:1"
    assert signed.sign(signed.registry.push(tag, "what was built")) == 0
    signed.registry.push(tag, "what somebody put there")
    assert signed.verify(f"{signed.registry.address}/{tag}") == 1
    assert "no signatures found" in capsys.readouterr().err


def test_an_edited_bill_of_materials_fails(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    image = signed.registry.push("c/scheduler:1", "what was built")
    assert signed.sign(image) == 0
    signed.bill.write_text(json.dumps({**BILL, "components": []}))
    assert signed.verify(image, "--sbom", str(signed.bill)) == 1
    assert "the signed bill of materials is another one than the file's" in capsys.readouterr().err


def test_a_bill_of_materials_that_is_edited_in_the_registry_fails(signed: Signed) -> None:
    class Tampering(Cosign):
        """Edits what is signed before it is attached."""

        def __call__(self, *arguments: str | Path, directory: Path | None = None) -> str:
            if arguments[0] == "attach":
                file = Path(arguments[3])
                envelope = json.loads(file.read_text())
                document = json.loads(base64.b64decode(envelope["payload"]))
                document["predicate"]["components"] = []
                envelope["payload"] = base64.b64encode(json.dumps(document).encode()).decode()
                file.write_text(json.dumps(envelope))
            return super().__call__(*arguments, directory=directory)

    image = signed.registry.push("d/scheduler:1", "what was built")
    bill = sign.statement(image, CYCLONEDX, BILL)
    key = signed.keys["ours"]
    sign.sign(Tampering(signed.registry.cosign, PASSWORD), key / "cosign.key", image, [bill])
    (attached,) = signed.registry.statements(image)
    assert attached["predicate"]["components"] == []
    with pytest.raises(SignError, match="cosign verify-attestation: "):
        sign.verify(Cosign(signed.registry.cosign), key / "cosign.pub", image, None, "")


def test_the_key_of_somebody_else_and_another_commit_fail(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    image = signed.registry.push("e/scheduler:1", "what was built")
    assert signed.sign(image, by="theirs") == 0
    assert signed.verify(image) == 1
    assert signed.verify(image, "--commit", "d" * 40, by="theirs") == 1
    assert f"says commit {COMMIT}, not {'d' * 40}" in capsys.readouterr().err


def test_statements_about_another_image_do_not_count(signed: Signed) -> None:
    image, other = (signed.registry.push(f"f/scheduler:{tag}", tag) for tag in ("1", "2"))
    key = signed.keys["ours"]
    cosign = Cosign(signed.registry.cosign, PASSWORD)
    about_other: Sequence[dict[str, Any]] = [sign.statement(other, CYCLONEDX, BILL)]
    sign.sign(cosign, key / "cosign.key", image, about_other)
    with pytest.raises(SignError, match="cosign verify-attestation"):
        sign.verify(cosign, key / "cosign.pub", image, None, "")


def test_a_wrong_password_is_said(
    signed: Signed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = signed.registry.push("g/scheduler:1", "what was built")
    monkeypatch.setenv("COSIGN_PASSWORD", "wrong")
    assert signed.sign(image) == 1
    assert capsys.readouterr().err.startswith("sign: cosign sign: ")
