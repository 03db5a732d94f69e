# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""The configurations of the documents that users start from: every mistake gets a message that users can act on."""

from pathlib import Path

import pytest

from scheduler.catalog import ExtensionPoint
from scheduler.config import ConfigurationError, convert_text, load_configuration

DATA = Path(__file__).parents[3] / "data/configurations"
FILLED = {"${PROM_URL}": "https://prometheus.example.com", "${PROM_TOKEN}": "abc"}
PROVIDER = "profiles[0].pluginConfig[0].args.metricProvider"


def read(name: str, *, filled: bool = False) -> str:
    text = (DATA / f"{name}.yaml").read_text(encoding="utf-8")
    for placeholder, value in FILLED.items() if filled else ():
        text = text.replace(placeholder, value)
    return text


def errors(name: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(read(name), source="f")
    return str(refused.value).splitlines()


@pytest.mark.parametrize("name", ["operator-readme-v1beta1", "virtualization-notes-v1beta3"])
def test_an_unfilled_placeholder_is_the_only_error_of_a_sample_that_is_right_otherwise(name: str) -> None:
    assert errors(name) == [
        f"f:23:22: {PROVIDER}.address: unresolved placeholder ${{PROM_URL}}; write the value itself here",
        f"f:24:20: {PROVIDER}.token: unresolved placeholder ${{PROM_TOKEN}}; nothing replaces it; put the token into a Secret (metricCredentials) instead",
    ]


def test_the_blogs_sample_has_flattened_leader_election_foreign_spaces_and_a_capital_in_token() -> None:
    assert errors("red-hat-blog-v1beta1") == [
        'f:4:1: leaderElect: unknown field "leaderElect"; it belongs under leaderElection: indent it below that key',
        "f:7:1: 18 lines are indented with non-ASCII spaces (U+00A0), which YAML reads as text; replace them with plain spaces",
        f"f:23:20: {PROVIDER}.address: unresolved placeholder ${{PROM_URL}}; write the value itself here",
        f'f:24:11: {PROVIDER}.Token: unknown field "Token"; did you mean "token"? (names are case-sensitive)',
        f"f:24:18: {PROVIDER}.Token: unresolved placeholder ${{PROM_TOKEN}}; nothing replaces it; put the token into a Secret (metricCredentials) instead",
    ]


def test_lost_indentation_is_reported_with_the_place_of_each_key() -> None:
    lines = errors("operator-page-without-indentation")
    assert lines[0] == (
        "f:1:1: the indentation of the file was lost: 15 keys at the left margin belong further to the right; copy it again from a "
        "source that keeps spaces"
    )
    assert (
        'f:4:1: leaderElect: unknown field "leaderElect"; it belongs under leaderElection: indent it below that key'
        in lines
    )
    assert 'f:8:1: score: unknown field "score"; it belongs under profiles[].plugins: indent it below that key' in lines
    assert (
        'f:20:1: targetUtilization: unknown field "targetUtilization"; it belongs under the args of TargetLoadPacking in profiles[].pluginConfig: indent it there'
        in lines
    )


@pytest.mark.parametrize(
    ("name", "scores", "warning"),
    [
        (
            "operator-readme-v1beta1",
            {"ImageLocality": 1, "InterPodAffinity": 1, "NodeAffinity": 1, "PodTopologySpread": 2, "TaintToleration": 1, "TargetLoadPacking": 1},
            "f:11:19: profiles[0].plugins.score.disabled[1].name: NodeResourcesLeastAllocated is the scoring of NodeResourcesFit in v1: that is disabled; its filter still runs",
        ),
        (
            "virtualization-notes-v1beta3",
            {"ImageLocality": 1, "InterPodAffinity": 2, "NodeAffinity": 2, "PodTopologySpread": 2, "TaintToleration": 3, "TargetLoadPacking": 1, "NodeResourcesFit": 1, "VolumeBinding": 1},
            'f:11:19: profiles[0].plugins.score.disabled[1].name: disables "NodeResourcesLeastAllocated", which has had no effect since v1beta2: NodeResourcesFit scores that way now; to switch that scoring off, disable NodeResourcesFit under score',
        ),
    ],
)  # fmt: skip
def test_a_filled_sample_runs_with_the_weights_of_its_version(name: str, scores: dict[str, int], warning: str) -> None:
    text = read(name, filled=True)
    for version in (text, convert_text(text, source="f")[0]):
        configuration = load_configuration(
            version, source="f", flavour="scheduler-plugins@0.34" if version != text else "ours",
            allow_token_in_config_map=True,
        )  # fmt: skip
        assert configuration.scheduler_names == ("secondary-scheduler",)
        weights = {plugin.name: plugin.weight for plugin in configuration.profiles[0].plugins(ExtensionPoint.SCORE)}
        assert weights == scores
    warnings = [
        str(problem) for problem in load_configuration(text, source="f", allow_token_in_config_map=True).warnings
    ]
    assert warning in warnings
    assert warnings[0].startswith("f:1:13: apiVersion: v1beta")
