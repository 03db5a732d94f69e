"""Messages that pages quote are those that the code writes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
PACKAGES = ("scheduler", "secondary_scheduler", "stacks", "components", "devcluster")
QUOTED = {
    "README.md": (
        "placed by the default scheduler and by ours",
        "deleting its pods",
        "CPU before the workload, and pods per node",
        "pods bound in",
        "The load moves from one node to another, and placements follow",
        "cools down",
        "The cluster is still running; look around",
    ),
    "docs/gangs.md": ("does not exist", "of at least", "have no scheduling gates", "resource gap", "failed recently"),
    "docs/load.md": (
        "load data are not fresh",
        "load series whose instance is no node of the cluster",
        "nodes without load in the source's answer",
        "nodes whose load is too old to be used",
        "nodes whose load is ahead of this machine's clock and is not used",
        "ahead of this machine's clock",
        "values that cannot be a load",
        "the answer is larger than",
        "TLS verification failed",
        "is not accepted",
        "where JSON was expected; is this a login page?",
        "redirected (HTTP",
        "several series per",
    ),
    "docs/operator.md": (
        "CanaryFailed",
        "RolledBack",
        "SchedulerNameTaken",
        "ConfigMapNotNamed",
        "ImageMissing",
        "SpecInvalid",
        "ImageNotPulled",
        "SchedulerCrashing",
        "ConfigMapMissing",
        "ConfigMapKeyMissing",
        "ConfigInvalid",
        "NamespaceTerminating",
        "ServedByAnotherOperator",
    ),
    "docs/quotas.md": ("is rejected in PreFilter because", "total ElasticQuota used is more than min"),
    "docs/stack-settings.md": ("the scheduler's behaviour changes:",),
}
"""By page. What a page quotes and the code no longer writes belongs in neither."""


@cache
def code() -> str:
    """The text of the packages, with string literals that continue on the next line joined."""
    files = (file for package in PACKAGES for file in sorted((CHECKOUT / package).rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text(encoding="utf-8") for file in files))


@pytest.mark.parametrize(("page", "message"), [(page, message) for page, texts in QUOTED.items() for message in texts])
def test_a_quoted_message_is_written_by_the_code(page: str, message: str) -> None:
    assert message in (CHECKOUT / page).read_text(encoding="utf-8")
    assert message in code()
