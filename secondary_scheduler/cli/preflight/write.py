"""Writes an address into a stack file and leaves everything else in it as it is."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.files import read_text

_KEY = "secondary-scheduler:metricProvider"
_SERVICES = (".svc", ".svc.cluster.local")


def write_address(file: Path, address: str) -> bool:
    """Set `metricProvider.address`; return False where it already has that value.

    Raises:
        CommandError: it is not a stack file.
        OSError: it cannot be read or written.
    """
    yaml = _yaml()
    document = _read(yaml, file)
    config = document["config"]
    provider = config.get(_KEY)
    if not isinstance(provider, CommentedMap):
        provider = config[_KEY] = CommentedMap({"type": "Prometheus"})
    if provider.get("address") == address:
        return False
    provider["address"] = address
    text = io.StringIO()
    yaml.dump(document, text)
    _replace(file, text.getvalue())
    return True


def require_stack_file(file: Path) -> None:
    """Check that an address could be written into a file.

    Raises:
        CommandError: it is not a stack file.
    """
    _read(_yaml(), file)


def trusts_services_only(file: Path, address: str) -> bool:
    """Return whether the stack's scheduler would verify an address with the CA of services although it is none.

    Raises:
        CommandError: it is not a stack file.
        OSError: it cannot be read.
    """
    provider = _read(_yaml(), file)["config"].get(_KEY)
    credentials = provider.get("credentials") if isinstance(provider, CommentedMap) else None
    if not isinstance(credentials, CommentedMap) or "serviceAccount" not in credentials:
        return False
    account = credentials["serviceAccount"]
    key = account.get("caKey") if isinstance(account, CommentedMap) else None
    # The second is the default of the stack's settings.
    inside = (urlsplit(address).hostname or "").endswith(_SERVICES)
    return key in (None, "service-ca.crt") and not inside


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000
    # The indentation of the project's own stack files.
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _read(yaml: YAML, file: Path) -> CommentedMap:
    try:
        document = yaml.load(read_text(file, option="--write"))
    except YAMLError as error:
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise CommandError(f"{file}: not valid YAML: {reason}", ExitCode.INVALID_INPUT) from error
    if not isinstance(document, CommentedMap) or not isinstance(document.get("config"), CommentedMap):
        raise CommandError(f"{file}: not a stack file: it has no mapping `config`", ExitCode.INVALID_INPUT)
    return document


def _replace(file: Path, text: str) -> None:
    """Write the whole file or nothing, with the mode it had."""
    handle, name = tempfile.mkstemp(dir=file.resolve().parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        Path(name).chmod(file.stat().st_mode & 0o777)
        Path(name).replace(file.resolve())
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
