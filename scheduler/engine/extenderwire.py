"""The JSON that extenders are sent and answer with (k8s.io/kube-scheduler/extender/v1). Pure; no I/O.

Requests are what Go's encoder makes of those types: Go's field names, nulls included. Answers are read as Go's decoder
reads them: names of fields in any case, unknown ones ignored, null as absent. They come from outside of the cluster's
control plane, so everything in them is bounded and none of it is believed: a node that was not asked about is an error,
and texts are cut to one short line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from scheduler.framework import SCORE_FACTOR, Extender, ExtenderError, FilterAnswer, PodInfo, PreemptAnswer

T = TypeVar("T")


class NonsenseError(ValueError):
    """An answer that cannot be read; the text says why."""


_MAX_TEXT: Final = 512
"""Characters of an extender's error or reason that go into an event."""
_MAX_REASONS: Final = 64
"""Different reasons that are kept of one answer."""
_OTHER_REASON: Final = "node(s) rejected by an extender"
_INT64: Final = 1 << 63
_raw_map = msgspec.json.Decoder(dict[str, Raw])
_raw_list = msgspec.json.Decoder(list[Raw])
_texts = msgspec.json.Decoder(list[str])
_text_map = msgspec.json.Decoder(dict[str, str | None])
_text = msgspec.json.Decoder(str)
_integer = msgspec.json.Decoder(int)
_NULL: Final = b"null"


# Requests -------------------------------------------------------------------------------------------------------------


def nodes_request(pod: Raw, nodes: Sequence[Raw] | None, names: Sequence[str]) -> bytes:
    """Return the body for filter and prioritize (ExtenderArgs): whole Nodes where they are given, else names."""
    node_list = None if nodes is None else {"metadata": {}, "items": nodes}
    return msgspec.json.encode({"Pod": pod, "Nodes": node_list, "NodeNames": None if nodes is not None else names})


def bind_request(pod: PodInfo, node: str) -> bytes:
    """Return the body for bind (ExtenderBindingArgs)."""
    return msgspec.json.encode(
        {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node},
    )


def preempt_request(
    pod: Raw, victims: Mapping[str, tuple[Sequence[Raw], int]] | None, uids: Mapping[str, tuple[Sequence[str], int]]
) -> bytes:
    """Return the body for preempt (ExtenderPreemptionArgs): whole victims where they are given, else their UIDs; both
    by node, with the number of PodDisruptionBudgets broken."""
    whole: Any = None
    meta: Any = None
    if victims is not None:
        whole = {node: {"Pods": pods, "NumPDBViolations": number} for node, (pods, number) in victims.items()}
    else:
        meta = {
            node: {"Pods": [{"UID": uid} for uid in victim_uids], "NumPDBViolations": number}
            for node, (victim_uids, number) in uids.items()
        }
    return msgspec.json.encode({"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta})


def without_type(content: bytes | Raw) -> Raw:
    """Return an object as kube-scheduler has it: without kind and apiVersion, and without managedFields.

    Raises:
        NonsenseError: it is no object.
    """
    fields = _decoded(_raw_map, content, "the object")
    fields.pop("kind", None)
    fields.pop("apiVersion", None)
    if "metadata" in fields:
        metadata = _decoded(_raw_map, fields["metadata"], "the object's metadata")
        if metadata.pop("managedFields", None) is not None:
            fields["metadata"] = Raw(msgspec.json.encode(metadata))
    return Raw(msgspec.json.encode(fields))


# Answers --------------------------------------------------------------------------------------------------------------


def filter_answer(body: bytes, extender: Extender, candidates: Collection[str]) -> FilterAnswer:
    """Read the answer to filter (ExtenderFilterResult) for the nodes that were asked about.

    Raises:
        NonsenseError: it cannot be read.
        ExtenderError: it keeps another node; upstream's words.
    """
    fields = _fields(body)
    if error := _error(fields):
        return FilterAnswer(error=error)
    names: list[str] = []
    if extender.cache_capable and _given(fields, "nodenames"):
        names = _decoded(_texts, fields["nodenames"], "NodeNames")
    elif _given(fields, "nodes"):
        names = _node_names(fields["nodes"])
    allowed = frozenset(candidates)
    for name in names:
        if name not in allowed:
            raise ExtenderError(
                f'extender "{extender.url}" claims a filtered node "{_line(name)}" which is not found in the input '
                "node list"
            )
    return FilterAnswer(
        tuple(dict.fromkeys(names)),
        _reasons(fields, "failednodes", allowed),
        _reasons(fields, "failedandunresolvablenodes", allowed),
    )


def scores(body: bytes, extender: Extender, candidates: Collection[str]) -> dict[str, int]:
    """Read the answer to prioritize (HostPriorityList); returns what to add to the totals of the nodes asked about.

    Raises:
        NonsenseError: it cannot be read.
    """
    allowed = frozenset(candidates)
    total: dict[str, int] = {}
    if _is_null(body):
        return total
    for item in _decoded(_raw_list, body, "the answer"):
        if _is_null(item):
            continue
        entry = _fields(item)
        host = _decoded(_text, entry["host"], "Host") if _given(entry, "host") else ""
        score = _decoded(_integer, entry["score"], "Score") if _given(entry, "score") else 0
        if not -_INT64 <= score < _INT64:
            raise NonsenseError("Score is beyond 64 bits")
        if host in allowed:
            total[host] = total.get(host, 0) + score * extender.weight * SCORE_FACTOR
    return total


def bind_error(body: bytes) -> str:
    """Read the answer to bind (ExtenderBindingResult): "" where the extender says that it has bound the pod.

    Raises:
        NonsenseError: it cannot be read.
    """
    return _error(_fields(body))


def preempt_answer(body: bytes, candidates: Collection[str]) -> PreemptAnswer:
    """Read the answer to preempt (ExtenderPreemptionResult) for the nodes that were asked about.

    Raises:
        NonsenseError: it cannot be read.
    """
    fields = _fields(body)
    allowed = frozenset(candidates)
    victims: dict[str, tuple[tuple[str, ...], int]] = {}
    if not _given(fields, "nodenametometavictims"):
        return PreemptAnswer()
    for node, item in _decoded(_raw_map, fields["nodenametometavictims"], "NodeNameToMetaVictims").items():
        if node not in allowed:
            raise NonsenseError(f'it names node "{_line(node)}", which is no candidate')
        entry = {} if _is_null(item) else _fields(item)
        pods = _decoded(_raw_list, entry["pods"], "Pods") if _given(entry, "pods") else []
        uids = [_uid(pod) for pod in pods]
        number = 0
        if _given(entry, "numpdbviolations"):
            number = _decoded(_integer, entry["numpdbviolations"], "NumPDBViolations")
        victims[node] = tuple(dict.fromkeys(uids)), min(max(0, number), len(uids))
    return PreemptAnswer(victims)


def _uid(pod: Raw) -> str:
    fields = _fields(pod)
    return _decoded(_text, fields["uid"], "UID") if _given(fields, "uid") else ""


def _node_names(nodes: Raw) -> list[str]:
    fields = _fields(nodes)
    if not _given(fields, "items"):
        return []
    names = []
    for item in _decoded(_raw_list, fields["items"], "Nodes.items"):
        node = _fields(item)
        metadata = _fields(node["metadata"]) if _given(node, "metadata") else {}
        names.append(_decoded(_text, metadata["name"], "the name of a node") if _given(metadata, "name") else "")
    return names


def _reasons(fields: Mapping[str, Raw], key: str, allowed: Collection[str]) -> dict[str, str]:
    if not _given(fields, key):
        return {}
    result: dict[str, str] = {}
    different: set[str] = set()
    for name, reason in _decoded(_text_map, fields[key], key).items():
        if name not in allowed:
            continue
        text = _line(reason or "")
        if text not in different and len(different) >= _MAX_REASONS:
            text = _OTHER_REASON
        different.add(text)
        result[name] = text
    return result


def _error(fields: Mapping[str, Raw]) -> str:
    text = _decoded(_text, fields["error"], "Error") if _given(fields, "error") else ""
    return _line(text) or "the extender reports an error without a text" if text else ""


def _fields(content: bytes | Raw) -> dict[str, Raw]:
    """Return the fields of an object under their names in lower case; the last of equal ones counts, as in Go."""
    if _is_null(content):
        return {}
    return {name.lower(): value for name, value in _decoded(_raw_map, content, "the answer").items()}


def _given(fields: Mapping[str, Raw], key: str) -> bool:
    return key in fields and not _is_null(fields[key])


def _is_null(content: bytes | Raw) -> bool:
    return len(content) < _MAX_TEXT and bytes(content).strip() == _NULL


def _decoded(decoder: msgspec.json.Decoder[T], content: bytes | Raw, place: str) -> T:
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NonsenseError(f"{place} cannot be read: {_line(str(error))}") from error


def _line(text: str) -> str:
    """Return a text from outside as one line of bounded length."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _MAX_TEXT]).split())
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]} …"


def one_line(errors: Iterable[str]) -> str:
    """Return texts of any origin as one line."""
    return "; ".join(map(_line, errors))
