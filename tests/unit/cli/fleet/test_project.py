"""Which stacks a fleet command means, and in which wave each goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.fleet.project import Project, arrange_in_waves, find_project, select


def stack_file(directory: Path, name: str, text: str = "config: {}") -> Path:
    file = directory / f"Pulumi.{name}.yaml"
    file.write_text(text)
    return file


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "Pulumi.yaml").write_text("name: mine\nruntime: python\nstackConfigDir: settings\n")
    (tmp_path / "settings").mkdir()
    for name in ("prod-a", "prod-b", "test-a"):
        stack_file(tmp_path / "settings", name)
    stack_file(tmp_path, "elsewhere")
    return find_project(tmp_path)


def test_settings_are_found_where_stack_config_dir_says_and_from_below(project: Project) -> None:
    assert set(project.stacks) == {"prod-a", "prod-b", "test-a"}
    assert set(find_project(project.directory / "settings").stacks) == {"prod-a", "prod-b", "test-a"}


def test_without_stack_config_dir_they_lie_beside_pulumi_yaml(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yml").write_text("name: mine\nruntime: python\n")
    stack_file(tmp_path, "dev")
    assert set(find_project(tmp_path).stacks) == {"dev"}


def test_stacks_are_chosen_by_globs_and_names_once_each(project: Project) -> None:
    chosen = select(project, ["prod-*", "prod-a", "test-a"])
    assert [stack.name for stack in chosen] == ["prod-a", "prod-b", "test-a"]


def test_a_glob_that_matches_nothing_is_a_mistake_and_names_what_there_is(project: Project) -> None:
    with pytest.raises(CommandError, match=r"--stacks prd-\*: no stack matches; there are: prod-a, prod-b") as error:
        select(project, ["prod-*", "prd-*"])
    assert error.value.code == ExitCode.USAGE


def test_what_a_settings_file_tells(project: Project) -> None:
    project.stacks["prod-a"].write_text(
        """
config:
  fleet:wave: canary
  mine:cluster: {clusterIdentifier: east, context: admin}
  mine:flavour: custom
  mine:kubeconfig: {secure: AAA}
  mine:metricProvider: {type: Prometheus, credentials: {token: {fromFileInEnv: TOKEN}}}
"""
    )
    stack = project.read("prod-a")
    assert (stack.wave, stack.cluster, stack.context) == ("canary", "east", "admin")
    assert stack.flavour == "custom"
    assert stack.has_secrets
    assert stack.token_variables == ("TOKEN",)
    plain = project.read("prod-b")
    assert (plain.wave, plain.cluster, plain.context, plain.has_secrets) == ("rest", "", None, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config:\n  fleet:wave: [a]", "fleet:wave: must be a name"),
        ("config:\n  fleet:wave: Canary", "fleet:wave: must be a name"),
        ("config: [a]", "config: must be a mapping"),
        ("- a", "must be a mapping"),
        ("config:\n  key: 'secret-value\n", ":3: not valid YAML"),
    ],
)
def test_a_settings_file_that_cannot_be_used_is_named(project: Project, text: str, message: str) -> None:
    project.stacks["prod-a"].write_text(text)
    with pytest.raises(CommandError) as error:
        project.read("prod-a")
    assert str(project.stacks["prod-a"]) in str(error.value)
    assert message in str(error.value)
    assert "secret-value" not in str(error.value)
    assert error.value.code == ExitCode.INVALID_INPUT


def test_no_project_here_or_above(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"no Pulumi\.yaml here or above"):
        find_project(tmp_path)


def test_waves_go_in_the_order_that_is_given_and_empty_ones_are_left_out(project: Project) -> None:
    stack_file(project.stacks["prod-b"].parent, "prod-b", "config: {'fleet:wave': canary}")
    arranged = arrange_in_waves(select(project, ["*"]), "canary,second,rest")
    assert [(name, [stack.name for stack in stacks]) for name, stacks in arranged] == [
        ("canary", ["prod-b"]),
        ("rest", ["prod-a", "test-a"]),
    ]


def test_a_stack_of_a_wave_that_is_not_named_is_a_mistake(project: Project) -> None:
    with pytest.raises(CommandError, match=r"stack prod-a is in wave rest, which --waves canary does not name"):
        arrange_in_waves(select(project, ["prod-a"]), "canary")


@pytest.mark.parametrize("waves", ["", "canary,", "canary,canary", "a b"])
def test_waves_that_make_no_sense_are_refused(project: Project, waves: str) -> None:
    with pytest.raises(CommandError, match="write different names separated by commas"):
        arrange_in_waves(select(project, ["prod-a"]), waves)
