"""The change between two configurations in words."""

import pytest

from scheduler.config import Configuration, differences, load_configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILE = """\
- schedulerName: mine
  plugins:
    score:
      enabled:
      - {name: TargetLoadPacking, weight: 5}
  pluginConfig:
  - name: TargetLoadPacking
    args: {targetUtilization: 40, metricProvider: {type: Prometheus, address: "https://p:1"}}
"""
BARE = "- schedulerName: mine\n"


def load(profiles: str, top: str = "") -> Configuration:
    return load_configuration(f"{HEAD}{top}profiles:\n{profiles}", source="f", allow_token_in_config_map=True)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (PROFILE, PROFILE.replace("weight: 5", "weight: 7"), ["profile mine: TargetLoadPacking weight 5 -> 7"]),
        (
            PROFILE,
            PROFILE.replace("targetUtilization: 40", "targetUtilization: 55, defaultRequests: {cpu: 2}"),
            [
                "profile mine: TargetLoadPacking defaultRequests.cpu 1000m -> 2",
                "profile mine: TargetLoadPacking targetUtilization 40 -> 55",
            ],
        ),
        (BARE, PROFILE, ["profile mine: TargetLoadPacking added at score (weight 5)"]),
        (PROFILE, BARE, ["profile mine: TargetLoadPacking removed, it ran at score (weight 5)"]),
        (
            BARE,
            f"{BARE}  plugins:\n    score:\n      disabled: [name: NodeResourcesFit]\n",
            ["profile mine: NodeResourcesFit disabled at score (weight 1)"],
        ),
        (
            f"{BARE}  plugins:\n    score:\n      disabled: [name: NodeResourcesFit]\n",
            BARE,
            ["profile mine: NodeResourcesFit enabled at score (weight 1)"],
        ),
        (
            BARE,
            f"{BARE}  plugins:\n    multiPoint:\n      disabled: [name: ImageLocality]\n",
            ["profile mine: ImageLocality removed, it ran at score (weight 1)"],
        ),
        (BARE, f"{BARE}  percentageOfNodesToScore: 30\n", ["profile mine: percentageOfNodesToScore unset -> 30"]),
        (
            PROFILE,
            f"{PROFILE}  - name: SecondarySchedulerOptions\n    args: {{compatibility: upstream}}\n",
            ["profile mine: SecondarySchedulerOptions compatibility safe -> upstream"],
        ),
        (BARE, f"{BARE}- schedulerName: batch\n", ["profile batch: added, scores by TaintToleration 3"]),
        (f"{BARE}- schedulerName: batch\n", BARE, ["profile batch: removed; nothing schedules pods that name it"]),
    ],
)
def test_a_change_is_described_in_words(old: str, new: str, lines: list[str]) -> None:
    changes = differences(load(old), load(new))
    assert len(changes) == len(lines)
    assert all(line.startswith(start) for line, start in zip(sorted(changes), sorted(lines), strict=True))


def test_equivalent_configurations_have_no_change() -> None:
    written_down = PROFILE.replace("targetUtilization: 40", "targetUtilization: 40, defaultRequests: {cpu: 1000m}")
    assert differences(load(PROFILE), load(f"# a comment\n{written_down}")) == []
    assert differences(load(BARE), load(BARE, "parallelism: 16\n")) == []


def test_top_level_fields_are_reported_without_a_profile() -> None:
    old, new = load(BARE), load(BARE, "podMaxBackoffSeconds: 20\nleaderElection: {leaseDuration: 30s}\n")
    assert differences(old, new) == ["leaderElection.leaseDuration 15s -> 30s", "podMaxBackoffSeconds 10 -> 20"]


def test_a_token_is_never_shown() -> None:
    with_token = PROFILE.replace("type: Prometheus", "type: Prometheus, token: canary-31415926")
    (line,) = differences(load(PROFILE), load(with_token))
    assert line == "profile mine: TargetLoadPacking metricProvider.token unset -> [secret]"
    assert "canary" not in "".join(differences(load(with_token), load(BARE)))


def test_the_order_of_scores_is_no_change_and_the_order_of_filters_is_one() -> None:
    def order(point: str, first: str, second: str) -> Configuration:
        return load(f"{BARE}  plugins:\n    {point}:\n      enabled: [{{name: {first}}}, {{name: {second}}}]\n")

    scoring = [
        order("score", *names) for names in (("NodeAffinity", "ImageLocality"), ("ImageLocality", "NodeAffinity"))
    ]
    assert differences(*scoring) == []
    (line,) = differences(order("filter", "NodeName", "NodePorts"), order("filter", "NodePorts", "NodeName"))
    assert line.startswith("profile mine: filter runs in a different order: NodePorts, NodeName")
