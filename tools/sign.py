"""Signs an image that was pushed, says what it holds and how it was built, and verifies that: docs/publishing.md.

    tools/sign.py key DIRECTORY                     make cosign.key and cosign.pub
    tools/sign.py sign --key FILE IMAGE@DIGEST      signature, bill of materials and provenance, into the registry
    tools/sign.py verify --key FILE IMAGE           check all three; --sbom FILE and --commit SHA say what to expect

The key is a local one, the password of its file is read from $COSIGN_PASSWORD or asked for, and nothing is written to a
transparency log. cosign does the cryptography: it is taken from PATH, or from the cache into which
`python -m devcluster.toolchain cosign` builds it.

Both documents are statements of in-toto version 1 about the image's digest: a CycloneDX bill of materials, and the
provenance of SLSA version 1. `cosign attest` would write version 0.1, so the statements are written and signed here and
then attached.
"""

from __future__ import annotations

import argparse
import base64
import getpass
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from devcluster.errors import DevClusterError  # noqa: E402
from devcluster.toolchain.binaries import BINARIES, find  # noqa: E402
from tools.image import BASE_LOCK, BUILD_LOCK, PARTS, locked_digests  # noqa: E402
from tools.version import version  # noqa: E402
from tools.wheels import BuildError, source_date_epoch  # noqa: E402

STATEMENT = "https://in-toto.io/Statement/v1"
CYCLONEDX = "https://cyclonedx.org/bom"
PROVENANCE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:secondary-scheduler:make-image:v1"
BUILDER = "urn:secondary-scheduler:workstation"
_NAMES = {CYCLONEDX: "bill of materials", PROVENANCE: "provenance"}
_BY_DIGEST = re.compile(r"(?P<repository>[^@\s]+?)(:[\w.-]+)?@sha256:(?P<digest>[0-9a-f]{64})")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NO_LOG = "--tlog-upload=false"
_IGNORE_LOG = "--insecure-ignore-tlog=true"
_PASSWORD = "COSIGN_PASSWORD"  # noqa: S105 - the name of a variable
_SECONDS = 300
_MAX_BYTES = 64 << 20
Statement = dict[str, Any]


class SignError(Exception):
    """One line for the user."""


class Cosign:
    """Runs cosign; what it refuses is a SignError with its last words."""

    def __init__(self, program: Path, password: str | None = None) -> None:
        self._program = program
        self._environment = os.environ if password is None else {**os.environ, _PASSWORD: password}

    def __call__(self, *arguments: str | Path, directory: Path | None = None) -> str:
        """What it prints."""
        command = [str(self._program), *map(str, arguments)]
        try:
            done = subprocess.run(
                command, cwd=directory, env=self._environment, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise SignError(
                f"cosign {arguments[0]} did not end within {_SECONDS} s: does the registry answer?"
            ) from None
        if done.returncode:
            words = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
            reason = next((line for line in words if line.startswith("Error:")), words[-1] if words else "no output")
            raise SignError(f"cosign {arguments[0]}: {reason.removeprefix('Error: ')[:400]}")
        if len(done.stdout) > _MAX_BYTES:
            raise SignError(f"cosign {arguments[0]} answered with more than {_MAX_BYTES >> 20} MiB")
        return done.stdout.decode()


def find_cosign(password: str | None = None) -> Cosign:
    """Cosign of PATH or of the cache, which opens key files with the password."""
    program = find(BINARIES["cosign"])
    if program is None:
        raise SignError(
            f"no cosign {BINARIES['cosign'].version} on PATH; build it, once: "
            ".venv/bin/python -m devcluster.toolchain cosign"
        )
    return Cosign(program, password)


def key_password() -> str:
    """The password of the key's file: $COSIGN_PASSWORD, which may be empty, or what is typed."""
    password = os.environ.get(_PASSWORD)
    if password is not None:
        return password
    if not sys.stdin.isatty():
        raise SignError(f"the key's file has a password: set {_PASSWORD}, or run this in a terminal")
    return getpass.getpass("Password of the key: ")


def subject_of(image: str) -> tuple[str, str]:
    """Repository and SHA-256 of an image that is named by its digest."""
    match = _BY_DIGEST.fullmatch(image)
    if match is None:
        raise SignError(
            f"{image} has no digest; name the image that you pushed as NAME@sha256:DIGEST, as podman push --digestfile "
            "FILE writes it: a tag may mean another image by now"
        )
    return match["repository"], match["digest"]


def statement(image: str, predicate_type: str, predicate: Mapping[str, Any]) -> Statement:
    """A statement of in-toto about an image that is named by its digest."""
    repository, digest = subject_of(image)
    return {
        "_type": STATEMENT,
        "subject": [{"name": repository, "digest": {"sha256": digest}}],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def provenance(builder: str = BUILDER, base_lock: Path = BASE_LOCK, part: str = "daemons") -> dict[str, Any]:
    """How `make image` builds the commit that is checked out, as the predicate of SLSA's provenance.

    What was built of other files has no such statement: changed files are an error. It is the word of whoever signs;
    nothing in an image says which commit it was built from.
    """
    if changed := _git("status", "--porcelain", "--untracked-files=no"):
        raise SignError(
            f"the clone has changes ({changed.split()[-1]}): check the commit out that the image was built from"
        )
    commit = _git("rev-parse", "HEAD")
    files = [f"image/{file.name}" for file in (PARTS[part].containerfile, PARTS[part].lock, BUILD_LOCK)]
    built_from = [{"uri": "git+file:secondary-scheduler", "digest": {"gitCommit": commit}}]
    built_from += [{"uri": f"file:{name}", "digest": {"sha256": _sha256(ROOT / name)}} for name in files]
    for image in locked_digests(base_lock).values():
        name, _, digest = image.partition("@sha256:")
        built_from.append({"uri": f"docker://{name}", "digest": {"sha256": digest}})
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"target": "image", "version": version(), "commit": commit},
            "internalParameters": {"SOURCE_DATE_EPOCH": source_date_epoch()},
            "resolvedDependencies": built_from,
        },
        "runDetails": {
            "builder": {"id": builder},
            "metadata": {"finishedOn": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")},
        },
    }


def read_bill(file: Path) -> dict[str, Any]:
    """A CycloneDX bill of materials as JSON."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise SignError(f"{file} has more than {_MAX_BYTES >> 20} MiB")
        bill = json.loads(file.read_bytes())
    except OSError as error:
        raise SignError(f"{file}: {error.strerror}; make image writes it, or tools/sbom.py FILE") from None
    except ValueError:
        bill = None
    if not isinstance(bill, dict) or bill.get("bomFormat") != "CycloneDX":
        raise SignError(f"{file} is no CycloneDX bill of materials as JSON")
    return bill


def sign(cosign: Cosign, key: Path, image: str, statements: Sequence[Statement]) -> None:
    """Write the signature of an image, and the signed statements about it, beside it into the registry."""
    cosign("sign", "--yes", "--key", key, _NO_LOG, image)
    with tempfile.TemporaryDirectory() as directory:
        for number, each in enumerate(statements):
            plain, signed = Path(directory, f"{number}.json"), Path(directory, f"{number}.dsse.json")
            plain.write_text(json.dumps(each), encoding="utf-8")
            cosign("attest-blob", "--yes", "--key", key, _NO_LOG, "--statement", plain, "--output-signature", signed)
            cosign("attach", "attestation", "--attestation", signed, image)


def verify(cosign: Cosign, key: Path, image: str, bill: Mapping[str, Any] | None, commit: str) -> list[str]:
    """Check signature, bill of materials and provenance of an image; returns a line about each.

    `bill` and `commit` are what they must say; None and "" for whatever they say. The statements are those about the
    digest that the signature holds for: a tag that is moved meanwhile changes nothing.
    """
    signed = json.loads(cosign("verify", "--key", key, _IGNORE_LOG, "--output", "json", image))
    (digest,) = {signature["critical"]["image"]["docker-manifest-digest"] for signature in signed}
    repository = image.partition("@")[0]
    if ":" in repository.rpartition("/")[2]:
        repository = repository.rpartition(":")[0]
    name = f"{repository}@{digest}"
    bills = _verified(cosign, key, name, CYCLONEDX, "cyclonedx")
    if bill is not None and bill not in bills:
        raise SignError(f"{name}: the signed bill of materials is another one than the file's")
    commits = [_commit_of(statement) for statement in _verified(cosign, key, name, PROVENANCE, "slsaprovenance1")]
    if commit and commit not in commits:
        raise SignError(f"{name}: the signed provenance says commit {', '.join(commits)}, not {commit}")
    return [
        f"{name}: signed by this key",
        f"bill of materials: {len(bills[-1].get('components', []))} components",
        f"provenance: built from commit {commit or commits[-1]}",
    ]


def _verified(cosign: Cosign, key: Path, image: str, predicate_type: str, cosigns_name: str) -> list[dict[str, Any]]:
    """The predicates of an image's statements of a type, which the key signed and which are about its digest."""
    output = cosign("verify-attestation", "--key", key, _IGNORE_LOG, "--type", cosigns_name, image)
    _, digest = subject_of(image)
    predicates = []
    for line in output.splitlines():
        document = json.loads(base64.b64decode(json.loads(line)["payload"]))
        about = {subject["digest"].get("sha256") for subject in document["subject"]}
        if document["_type"] == STATEMENT and document["predicateType"] == predicate_type and digest in about:
            predicates.append(document["predicate"])
    if not predicates:
        raise SignError(f"{image}: no {_NAMES[predicate_type]} as a statement of in-toto version 1")
    return predicates


def _commit_of(predicate: Mapping[str, Any]) -> str:
    return str(predicate.get("buildDefinition", {}).get("externalParameters", {}).get("commit", "unknown"))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SignError(
            f"git {arguments[0]}: {done.stderr.strip() or 'failed'}; provenance names a commit, so it needs a clone"
        )
    return done.stdout.strip()


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _commit(text: str) -> str:
    if not _COMMIT.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no commit: give its 40 hexadecimal digits")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    key = commands.add_parser("key", help="make a key pair")
    key.add_argument("directory", type=Path)
    signing = commands.add_parser("sign", help="sign a pushed image and attach its documents")
    signing.add_argument("--key", type=Path, required=True, help="cosign.key")
    signing.add_argument("--part", choices=tuple(PARTS), default="daemons", help="which image it is")
    signing.add_argument("--sbom", type=Path, help="its bill of materials (default: what the part's build has written)")
    signing.add_argument("--builder", default=BUILDER, help=f"URI of what built it (default: {BUILDER})")
    signing.add_argument("image", help="NAME@sha256:DIGEST")
    checking = commands.add_parser("verify", help="check an image's signature and documents")
    checking.add_argument("--key", type=Path, required=True, help="cosign.pub")
    checking.add_argument("--sbom", type=Path, help="the bill of materials that it must have")
    checking.add_argument("--commit", type=_commit, help="the commit that it must be built from")
    checking.add_argument("image", help="NAME:TAG or NAME@sha256:DIGEST")
    return parser


def _make_key(cosign: Cosign, directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if existing := [name for name in ("cosign.key", "cosign.pub") if (directory / name).exists()]:
        raise SignError(f"{directory / existing[0]} exists: choose another directory")
    cosign("generate-key-pair", directory=directory)
    print(f"sign: wrote {directory / 'cosign.key'} and {directory / 'cosign.pub'}")


def main(arguments: Sequence[str]) -> int:
    """Do what the command says; returns the exit code: 0, 1 with one line on stderr, 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "key":
            _make_key(find_cosign(key_password()), options.directory)
        elif options.command == "sign":
            bill = read_bill(options.sbom or PARTS[options.part].sbom)
            documents = {CYCLONEDX: bill, PROVENANCE: provenance(options.builder, part=options.part)}
            statements = [statement(options.image, kind, document) for kind, document in documents.items()]
            sign(find_cosign(key_password()), options.key, options.image, statements)
            print(f"sign: signed {options.image}, its bill of materials and its provenance")
        else:
            expected = None if options.sbom is None else read_bill(options.sbom)
            print("\n".join(verify(find_cosign(), options.key, options.image, expected, options.commit or "")))
    except (SignError, BuildError, DevClusterError) as failure:
        print(f"sign: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
