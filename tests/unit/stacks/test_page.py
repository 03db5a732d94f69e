"""The setting page of a stack: what is taken, and which values are refused, at which key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.config import ConfigurationError
from stacks.checking import check

IMAGE = "localhost/secondary-scheduler/operator:0.2.0"
SCHEDULER = "localhost/secondary-scheduler/kube-scheduler:0.2.0"
GOOD: dict[str, Any] = {"cluster": {"clusterIdentifier": "test"}, "operatorImage": IMAGE}
GO_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"


@pytest.fixture
def problems(tmp_path: Path, kubeconfig: Path) -> Any:
    """Returns the problems of a stack with this setting, by path."""

    def judge(
        page: dict[str, Any], image: str = "localhost/secondary-scheduler/kube-scheduler:0.2.0"
    ) -> dict[str, str]:
        values = {
            "cluster": {"clusterIdentifier": "test"},
            "schedulerImage": image,
            "operatorImage": IMAGE,
            "page": page,
        }
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        try:
            stack, _, _ = check(texts, set(), {"KUBECONFIG": str(kubeconfig)}, tmp_path)
        except ConfigurationError as error:
            return {problem.path: problem.message for problem in error.problems}
        assert stack.page.image == page.get("image")
        return {}

    return judge


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"image": IMAGE},
        {"image": IMAGE, "hosts": ["scheduling.example.com", "localhost"], "tlsSecret": "page-tls"},
    ],
    ids=str,
)
def test_what_can_work_is_taken(problems: Any, setting: dict[str, Any]) -> None:
    assert problems(setting) == {}


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ({"hosts": ["scheduling.example.com"]}, "page.image"),
        ({"image": GO_IMAGE}, "page.image"),
        ({"image": "no image"}, "page.image"),
        ({"image": IMAGE, "hosts": ["https://scheduling.example.com"]}, "page.hosts[0]"),
        ({"image": IMAGE, "hosts": ["scheduling.example.com:8443"]}, "page.hosts[0]"),
        ({"image": IMAGE, "hosts": [f"h{number}.example.com" for number in range(17)]}, "page.hosts"),
        ({"image": IMAGE, "tlsSecret": "Page TLS"}, "page.tlsSecret"),
        ({"image": IMAGE, "colour": "red"}, "page.colour"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_at_its_key(problems: Any, setting: dict[str, Any], path: str) -> None:
    assert path in problems(setting)


def test_another_scheduler_has_no_page(problems: Any) -> None:
    assert "page" in problems({"image": IMAGE}, GO_IMAGE)
