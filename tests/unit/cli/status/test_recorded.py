"""The document of `status` has all that it had before it had a type: programs read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.config import ConfigurationError, load_configuration
from secondary_scheduler.cli.output import FullOutputFormat, document_text
from secondary_scheduler.clusterstatus.asking import LiveState, summarize_metrics
from secondary_scheduler.clusterstatus.status import StatusReport
from tests.support.documents import lost
from tests.unit.cli.status import installation as made
from tests.unit.cli.status.installation import condition
from tests.unit.cli.status.test_status import BLIND, COUNTS, LIVE, SHADOWED, document_of

BROKEN = "profiles: 7"


def recorded() -> dict[str, Any]:
    """The documents by case; what is wrong with a configuration is said in the words of today."""
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(BROKEN, source="config.yaml")
    text = Path("tests/data/status-0.2.0.json").read_text(encoding="utf-8")
    documents: dict[str, Any] = json.loads(text.replace("WHY", json.dumps(" ".join(str(refused.value).split()))[1:-1]))
    return documents


RECORDED = recorded()
SHADOW = made.installation() | {made.CONFIG_MAP: {"data": {"config.yaml": SHADOWED}}}
DIRECT = made.deployment(args=("--secure-port=10300", "--leader-elect-resource-name=mine"))
CASES: dict[str, dict[str, Any]] = {
    "healthy": {"answers": made.installation()},
    "a shadow that is counted": {
        "answers": SHADOW,
        "live": LiveState(summarize_metrics(made.METRICS + COUNTS), LIVE.decisions),
    },
    "a shadow, and no answer": {"answers": SHADOW, "live": None},
    "only the Lease may be read": {"answers": made.installation(), "refused": BLIND},
    "an unreadable configuration": {
        "answers": made.installation(config_map={"data": {"config.yaml": BROKEN}}),
    },
    "without a SecondaryScheduler": {
        "answers": made.installation(crs=None, deployments=[DIRECT], leases=[made.lease("mine")]),
    },
    "removed": {
        "answers": made.installation(
            crs=[made.resource(managementState="Removed")], deployments=[made.OPERATOR], leases=[]
        ),
        "live": None,
    },
    "degraded, and its load is stale": {
        "answers": made.installation(
            crs=[made.resource(condition("Degraded", "True", "ConfigInvalid", "no such plugin"))],
            leases=[made.lease(load_data_fresh="false", load_data_message="away", unread_resources="podgroups")],
        ),
    },
    "without a scheduler": {"answers": {made.DEPLOYMENTS: [], made.LEASES: []}},
}


def text_of(case: str) -> str:
    return document_text(document_of(**CASES[case]), FullOutputFormat.JSON)


@pytest.mark.parametrize("case", CASES)
def test_the_document_has_all_of_the_recorded_one(case: str) -> None:
    assert lost(RECORDED[case], json.loads(text_of(case))) == []


@pytest.mark.parametrize("case", CASES)
def test_who_reads_the_document_gets_the_status(case: str) -> None:
    assert msgspec.json.decode(text_of(case), type=StatusReport) == document_of(**CASES[case])
