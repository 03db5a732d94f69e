"""Any input gives a configuration or problems, never a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import yaml
from hypothesis import given, settings, strategies as st

from scheduler.catalog import known_names
from scheduler.config import ConfigurationError, convert_text, load_configuration
from scheduler.config.legacy import EXPLAINED, STRATEGIES, VOLUME_LIMITS
from tests.support.selection import tries

T = TypeVar("T")
ALLOW: dict[str, Any] = {"allow_default_scheduler_name": True, "external_load": True}
POINTS = ("score", "filter", "queueSort", "bind", "multiPoint", "preEnqueue", "nonsense")
NAMES = st.sampled_from([*known_names(), *STRATEGIES, *VOLUME_LIMITS, *EXPLAINED, "*", "", "Nope", 3, None])
ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.just([]), st.just({})
)


def or_odd(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, usual, ODD)


ENTRY = or_odd(st.fixed_dictionaries({"name": NAMES}, optional={"weight": or_odd(st.integers(-1, 100))}))
ENTRIES = st.lists(ENTRY, max_size=4)
SET = or_odd(st.fixed_dictionaries({}, optional={"enabled": ENTRIES, "disabled": ENTRIES}))
FIELDS = ("resources", "shape", "scoringStrategy", "defaultConstraints", "metricProvider", "apiVersion", "x")
VERSIONS = [f"kubescheduler.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1beta2", "v1beta3")]
ARGS = or_odd(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=3))
CONFIG = or_odd(st.lists(or_odd(st.fixed_dictionaries({"name": NAMES}, optional={"args": ARGS})), max_size=3))
PROFILE = or_odd(
    st.fixed_dictionaries(
        {"schedulerName": or_odd(st.sampled_from(["a", "b"]))},
        optional={"plugins": or_odd(st.dictionaries(st.sampled_from(POINTS), SET, max_size=4)), "pluginConfig": CONFIG},
    )
)
FILES = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(VERSIONS),
        "kind": st.just("KubeSchedulerConfiguration"),
    },
    optional={
        "profiles": or_odd(st.lists(PROFILE, max_size=3)),
        "leaderElection": ODD,
        "healthzBindAddress": ODD,
        "extenders": ODD,
    },
)


class WithoutAnchors(yaml.SafeDumper):
    """Writes an object that comes twice in full: `convert` refuses what shares an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@settings(max_examples=tries(200), deadline=None)
@given(FILES, st.sampled_from(["ours", "scheduler-plugins@0.28", "scheduler-plugins@0.34", "custom"]))
def test_it_loads_or_is_refused_with_reasons(data: dict[str, Any], flavour: str) -> None:
    text = yaml.dump(data, Dumper=WithoutAnchors, allow_unicode=True)
    configuration = outcome(lambda: load_configuration(text, source="f", flavour=flavour, **ALLOW))
    if isinstance(configuration, ConfigurationError):
        assert configuration.problems
        assert all(problem.message and "\n" not in str(problem) for problem in configuration.problems)
        return
    converted = outcome(lambda: convert_text(text, source="f", flavour=configuration.flavour)[0])
    assert isinstance(converted, str), f"valid, and not convertible: {converted}"
    again = load_configuration(converted, source="f", flavour=flavour if flavour == "ours" else "custom", **ALLOW)
    assert again.scheduler_names == configuration.scheduler_names


def outcome(function: Callable[[], T]) -> T | ConfigurationError:
    try:
        return function()
    except ConfigurationError as error:
        return error
