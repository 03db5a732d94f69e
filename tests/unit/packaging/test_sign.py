"""What tools/sign.py says of an image, and what it refuses before it asks a registry.

That cosign verifies it, and nothing that was changed, is shown in tests/integration/packaging/test_signatures.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools import sign
from tools.sign import CYCLONEDX, PROVENANCE, STATEMENT, SignError

DIGEST = "a" * 64
IMAGE = f"registry.example.com/secondary-scheduler/kube-scheduler@sha256:{DIGEST}"
BILL = {"bomFormat": "CycloneDX", "components": [{"name": "numpy"}]}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with what an image is built from."""
    for name in ("Containerfile", "requirements.txt", "requirements-build.txt"):
        (tmp_path / "image" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "image" / name).write_text(f"content of {name}")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message=First")):
        subprocess.run([*git, *command], check=True, capture_output=True)
    monkeypatch.setattr(sign, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        (IMAGE, "registry.example.com/secondary-scheduler/kube-scheduler"),
        (f"localhost:5000/a/b:0.2.0@sha256:{DIGEST}", "localhost:5000/a/b"),
    ],
)
def test_a_statement_is_about_the_digest(image: str, repository: str) -> None:
    assert sign.statement(image, CYCLONEDX, BILL) == {
        "_type": STATEMENT,
        "subject": [{"name": repository, "digest": {"sha256": DIGEST}}],
        "predicateType": CYCLONEDX,
        "predicate": BILL,
    }


@pytest.mark.parametrize("image", ["a/b:0.2.0", "a/b", "a/b@sha256:12", f"a b@sha256:{DIGEST}", f"a/b@md5:{DIGEST}"])
def test_an_image_without_a_digest_is_not_signed(image: str) -> None:
    with pytest.raises(SignError, match="has no digest; name the image that you pushed as NAME@sha256:DIGEST"):
        sign.statement(image, CYCLONEDX, BILL)


def test_provenance_names_the_commit_and_what_the_image_is_built_from(clone: Path) -> None:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True, check=True)
    lock = clone / "base.lock"
    lock.write_text(f"docker.io/library/python:3.11@sha256:{DIGEST}\n")
    predicate = sign.provenance("urn:ci", lock)
    definition = predicate["buildDefinition"]
    assert definition["externalParameters"]["commit"] == commit.stdout.strip()
    digests = {each["uri"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert digests["docker://docker.io/library/python:3.11"] == {"sha256": DIGEST}
    content = hashlib.sha256(b"content of requirements.txt").hexdigest()
    assert digests["file:image/requirements.txt"] == {"sha256": content}
    assert predicate["runDetails"]["builder"]["id"] == "urn:ci"


def test_provenance_of_the_command_lines_image_names_its_own_lock(clone: Path) -> None:
    for name in ("cli.Containerfile", "requirements-cli.txt"):
        (clone / "image" / name).write_text(f"content of {name}")
    resolved = sign.provenance("urn:ci", clone / "base.lock", "cli")["buildDefinition"]["resolvedDependencies"]
    names = [each["uri"] for each in resolved if each["uri"].startswith("file:")]
    assert names == [
        "file:image/cli.Containerfile",
        "file:image/requirements-cli.txt",
        "file:image/requirements-build.txt",
    ]


def test_changed_files_have_no_provenance(clone: Path) -> None:
    (clone / "image" / "Containerfile").write_text("changed")
    with pytest.raises(SignError, match=r"the clone has changes \(image/Containerfile\)"):
        sign.provenance()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"bomFormat": "SPDX"}', "\x00"])
def test_what_is_no_bill_of_materials_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "sbom.json").write_text(text)
    with pytest.raises(SignError, match="is no CycloneDX bill of materials"):
        sign.read_bill(tmp_path / "sbom.json")


class FakeCosign(sign.Cosign):
    """Answers as cosign does once it has verified."""

    def __init__(self, *statements: dict[str, Any]) -> None:
        super().__init__(Path("cosign"))
        self._statements = statements

    def __call__(self, *arguments: str | Path, directory: Path | None = None) -> str:
        if arguments[0] == "verify":
            return json.dumps([{"critical": {"image": {"docker-manifest-digest": f"sha256:{DIGEST}"}}}])
        assert arguments[0] == "verify-attestation"
        assert arguments[-1] == IMAGE
        payloads = (base64.b64encode(json.dumps(each).encode()).decode() for each in self._statements)
        return "".join(json.dumps({"payload": payload}) + "\n" for payload in payloads)


BUILT = {"buildDefinition": {"externalParameters": {"commit": "c" * 40}}}


def verify(*statements: dict[str, Any], bill: dict[str, Any] | None = None, commit: str = "") -> list[str]:
    return sign.verify(FakeCosign(*statements), Path("cosign.pub"), f"{IMAGE.partition('@')[0]}:0.2.0", bill, commit)


def both() -> list[dict[str, Any]]:
    return [sign.statement(IMAGE, CYCLONEDX, BILL), sign.statement(IMAGE, PROVENANCE, BUILT)]


def test_what_is_verified_is_told() -> None:
    lines = verify(*both(), bill=BILL, commit="c" * 40)
    assert lines == [
        f"{IMAGE}: signed by this key",
        "bill of materials: 1 components",
        f"provenance: built from commit {'c' * 40}",
    ]


def test_another_bill_of_materials_and_another_commit_fail() -> None:
    with pytest.raises(SignError, match="another one than the file's"):
        verify(*both(), bill={**BILL, "components": []})
    with pytest.raises(SignError, match=f"says commit {'c' * 40}, not {'d' * 40}"):
        verify(*both(), commit="d" * 40)


@pytest.mark.parametrize(
    ("statements", "missing"),
    [
        pytest.param(both()[:1], "provenance", id="no provenance"),
        pytest.param(both()[1:], "bill of materials", id="no bill of materials"),
        pytest.param(
            [{**each, "_type": "https://in-toto.io/Statement/v0.1"} for each in both()], "bill", id="old form"
        ),
        pytest.param(
            [{**each, "subject": [{"name": "a", "digest": {"sha256": "b" * 64}}]} for each in both()],
            "bill",
            id="about another image",
        ),
    ],
)
def test_statements_that_are_missing_fail(statements: list[dict[str, Any]], missing: str) -> None:
    with pytest.raises(SignError, match=f"no {missing}"):
        verify(*statements)


def test_a_wrong_command_line_is_said_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        sign.main(["verify", "--key", "cosign.pub", "--commit", "main", IMAGE])
    assert "'main' is no commit: give its 40 hexadecimal digits" in capsys.readouterr().err
    assert sign.main(["sign", "--key", "cosign.key", "--sbom", str(tmp_path / "none"), IMAGE]) == 1
    assert (
        capsys.readouterr().err
        == f"sign: {tmp_path / 'none'}: No such file or directory; make image writes it, or tools/sbom.py FILE\n"
    )
