"""The archive: a tar file whose members are in a fixed order, of limited size, and named safely."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path
from typing import Final

from secondary_scheduler.cli.privatefile import private_file
from secondary_scheduler.cli.redaction import MASK

README: Final = "README.txt"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_BEGINNING, _ENDING = 80, 40
"""Characters that are kept of a longer name."""
_TEXT: Final = """\
A support archive of secondary-scheduler, namespace {namespace}, made {created} by secondary-scheduler {version}.

Look through it before you give it to anybody: names of your pods, nodes, images and namespaces, the address of the API
server, and those in the configuration and the logs are in it.

Files
-----
status.yaml                       what `secondary-scheduler status -o yaml` shows
explain/POD/decisions.json        the last decisions of the leading scheduler POD, as `explain` shows them
explain/POD/queue.json            what waits there, and why
configurations/running/NAME.yaml  config.yaml that the Deployment NAME mounts, without comments and unknown fields
configurations/wanted/NAME.yaml   the same of the ConfigMap NAME, which a SecondaryScheduler names
versions.yaml                     of the command line and the cluster; of each pod images, restarts and how it ended
events.yaml                       Events about the operator, the schedulers and their pods
logs/POD/CONTAINER.log            the end of the log; CONTAINER.previous.log: of the container that ran before
problems.txt                      what could not be read, and which right was missing

Not in it: the objects themselves, metrics, and other pods. If the question is about a decision, attach what
`secondary-scheduler snapshot --file cluster.json` writes, too: nodes and pods of the whole cluster.

How it was redacted
-------------------
No Secret was read. In all that is here, {mask} replaces
- the credentials of the kubeconfig,
- values of environment variables and of unknown flags, whatever stands under keys such as token and password, and user
  names and passwords in URLs, wherever the objects have them: as they are, and in base64,
- what looks like a secret: JSON web tokens, `Bearer ...`, `token=...`, private keys, AWS keys, OpenShift's tokens.
A secret of which none of this is true, such as a password in the middle of a sentence of a log, is not recognised.
"""


def readme(namespace: str, created: str, version: str) -> bytes:
    """What is in an archive, what is not, and how it was redacted."""
    return _TEXT.format(namespace=namespace, created=created, version=version, mask=MASK).encode()


class Members:
    """Files of an archive by their paths in it."""

    def __init__(self, most: int) -> None:
        """Configure; `most` bytes in all."""
        self._left = most
        self.contents: dict[str, bytes] = {}

    def add(self, *path: str, content: bytes) -> bool:
        """Add a file; False where there is no room left for it. The parts of its path may be any text."""
        if len(content) > self._left:
            return False
        name = "/".join(safe_name(part) for part in path)
        count, unique = 2, name
        while unique in self.contents:
            unique, count = f"{name}-{count}", count + 1
        self._left -= len(content)
        self.contents[unique] = content
        return True


def safe_name(text: str) -> str:
    """A name for a file, whatever an object is called: no separator, no `..`, no character that a shell reads."""
    safe = _UNSAFE.sub("_", text).lstrip(".") or "_"
    return safe if len(safe) <= _BEGINNING + _ENDING else safe[:_BEGINNING] + safe[-_ENDING:]


def write_archive(file: Path, root: str, members: Members, seconds: int) -> None:
    """Write the archive with mode 0600, as a whole or not at all; `seconds` since the epoch is the time of its files.

    Raises:
        CommandError: the file cannot be made there.
        OSError: it cannot be written.
    """
    ordered = sorted(members.contents.items(), key=lambda item: (item[0] != README, item[0]))
    with (
        private_file(file, "--file") as out,
        gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in ordered:
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), seconds, 0o600
            tar.addfile(entry, io.BytesIO(content))
