"""What a scheduler is asked, and what of its answers is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler.config import redacted
from secondary_scheduler.cli.bundle.keeping import known_flags
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.keptconfiguration import keep_configuration
from secondary_scheduler.cli.shapes import Fields, Scalar, Table
from secondary_scheduler.clusterstatus.forwarding import Answer


class Page(NamedTuple):
    """A path of the scheduler's port.

    Attributes:
        path: with its query.
        name: of its file.
        keep: what of an answer is kept.
        always: whether every scheduler of ours serves it; upstream's newer pages are switched on by feature gates.
    """

    path: str
    name: str
    keep: Callable[[bytes], bytes]
    always: bool = True


def _unchanged(body: bytes) -> bytes:
    return body


def _keep_configz(body: bytes) -> bytes:
    """The configuration, reduced as that of a ConfigMap, and which version each profile behaves as."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return b""
    if not isinstance(document, dict):
        return b""
    kept = {"componentconfig": redacted(keep_configuration(document.get("componentconfig")))}
    behavior = _BEHAVIOR.keep(document.get("behavior"))
    if isinstance(behavior, dict):
        kept["behavior"] = behavior
    return json.dumps(kept, indent=2).encode() + b"\n"


def _keep_flagz(body: bytes) -> bytes:
    """The lines about flags that are known."""
    flags = known_flags()
    lines = body.decode("utf-8", "replace").splitlines()
    kept = (line for line in lines if "=" in line and f"--{line.partition('=')[0].strip()}" in flags)
    return "".join(f"{line}\n" for line in kept).encode()


_BEHAVIOR: Final = Fields(
    {"apiVersion": Scalar(), "kind": Scalar(), "kubernetesVersion": Table(), "clusterVersion": Scalar()}
)
PAGES: Final = (
    Page("/metrics", "metrics.txt", _unchanged),
    Page("/configz", "configz.json", _keep_configz),
    Page("/statusz", "statusz.txt", _unchanged, always=False),
    Page("/flagz", "flagz.txt", _keep_flagz, always=False),
    Page("/readyz?verbose", "readyz.txt", _unchanged),
)


def is_absent(answer: Answer, page: Page) -> bool:
    """Whether this scheduler does not serve a page that it need not serve."""
    return answer.status == 404 and not page.always


def problem_of(answer: Answer, page: Page) -> str:
    """Why an answer is not kept; "" for one that is. A scheduler that is not ready says so with 500."""
    if answer.status == 200 or (page.path.startswith("/readyz") and answer.status == 500):
        return ""
    reason = printable(answer.body[:300].decode("utf-8", "replace").strip())
    if "bearer token is needed" in reason:
        return f"{answer.status}: a scheduler without --client-ca-file knows no client certificates: use a token"
    if answer.status in (401, 403):
        return f"{answer.status}, missing right: get on the non-resource URL {page.path}"
    if answer.status == 404:
        return "404: this scheduler does not serve it"
    return f"{answer.status}: {reason}"
