"""Manifests out of what a program registered."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from ruamel.yaml import YAML

from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.render.manifests import build, dump, stream

SECRET_MARK = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def registered(kind: str, name: str, *dependencies: str, **content: Any) -> dict[str, Any]:
    inputs = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}, **content}
    return {"urn": f"{kind}/{name}", "inputs": inputs, "dependencies": list(dependencies)}


def titles(*objects: dict[str, Any]) -> list[str]:
    return [obj.title for obj in build(objects, show_secrets=False)]


def test_dependencies_win_over_kinds_and_kinds_over_names() -> None:
    objects = [
        registered("Deployment", "a"),
        registered("ConfigMap", "z"),
        registered("ConfigMap", "b", "Deployment/a"),
        registered("ServiceAccount", "y"),
    ]
    expected = ["ServiceAccount ns/y", "ConfigMap ns/z", "Deployment ns/a", "ConfigMap ns/b"]
    assert titles(*objects) == titles(*reversed(objects)) == expected


def test_dependencies_on_what_is_no_object_do_not_hold_anything_up() -> None:
    assert titles(registered("ConfigMap", "a", "urn:of:a:component")) == ["ConfigMap ns/a"]


def test_what_others_make_is_not_written_but_keeps_its_place_in_the_order() -> None:
    waited_for = registered("ConfigMap", "made-by-olm", "Subscription/s", data={"key": UNKNOWN}) | {"adopted": True}
    scheduler = registered("SecondaryScheduler", "cluster", "ConfigMap/made-by-olm")
    expected = ["Subscription ns/s", "SecondaryScheduler ns/cluster"]
    assert titles(scheduler, waited_for, registered("Subscription", "s")) == expected


def test_what_is_unknown_before_the_stack_exists_is_refused_with_its_place() -> None:
    with pytest.raises(CommandError, match=r"ConfigMap ns/a: data\.key is known only once the stack exists"):
        build([registered("ConfigMap", "a", data={"key": UNKNOWN})], show_secrets=False)


def test_a_secret_value_outside_a_secret_is_refused_without_repeating_it() -> None:
    obj = registered("ConfigMap", "a", data={"key": {**SECRET_MARK, "value": "canary"}})
    with pytest.raises(CommandError, match="outside a Secret") as caught:
        build([obj], show_secrets=False)
    assert "canary" not in str(caught.value)
    (shown,) = build([obj], show_secrets=True)
    assert yaml.safe_load(shown.text)["data"] == {"key": "canary"}


def test_an_object_without_a_name_is_refused() -> None:
    obj = registered("ConfigMap", "a")
    del obj["inputs"]["metadata"]["name"]
    with pytest.raises(CommandError, match=r"ConfigMap has no metadata\.name"):
        build([obj], show_secrets=False)


def test_whole_numbers_are_written_as_such() -> None:
    (obj,) = build([registered("Deployment", "a", spec={"replicas": 2.0, "share": 0.5})], show_secrets=False)
    assert "replicas: 2\n" in obj.text
    assert "share: 0.5\n" in obj.text


def test_a_left_out_secret_is_comments_only() -> None:
    secret = registered("Secret", "s", stringData={"token": {**SECRET_MARK, "value": "canary"}})
    text = stream(build([secret], show_secrets=False), "prod")
    assert "canary" not in text
    assert [line for line in text.splitlines() if not line.startswith("#") and line != "---"] == []


TRICKY = ["y", "No", "on", "null", "~", "", "0123", "1e3", "0x1F", "0o17", "1_000", "12:30:45", ".inf", "2026-11-21"]
TRICKY += ["a: b", "#c", "- d", "{e}", "*f", "&g", "!h", "@i", "%j", "k #l", " m", "n ", "o\n", "p\nq", "r\n\n", "\ts"]
TRICKY += ["u\n v\nw", " x\ny\n", "<<", "=", "é", "\x85", "true ", "z:", "?", "a\\b", 'c"d', "e'f"]


@given(st.lists(st.sampled_from(TRICKY) | st.text(max_size=12), min_size=1, max_size=6))
def test_text_is_read_back_as_it_was_by_readers_of_both_versions_of_yaml(texts: list[str]) -> None:
    document = {"list": texts, "map": {f"key{index}": text for index, text in enumerate(texts)}}
    written = dump(document)
    assert yaml.safe_load(written) == document
    assert YAML(typ="safe", pure=True).load(written) == document


@given(st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False).filter(lambda f: not math.isinf(f)))
def test_other_values_are_read_back_as_they_were(value: Any) -> None:
    assert yaml.safe_load(dump({"value": value})) == {"value": value}
