"""docs/configuration.md names every field and every plugin that has args; and what other images lack is said."""

from pathlib import Path

import pytest

from scheduler.catalog import descriptors
from scheduler.config import KubeSchedulerConfiguration, flavour_names
from scheduler.config.model import ClientConnectionConfiguration, KubeSchedulerProfile, LeaderElectionConfiguration

DOCS = Path(__file__).parents[4] / "docs"
TEXT = (DOCS / "configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "model",
    [KubeSchedulerConfiguration, LeaderElectionConfiguration, ClientConnectionConfiguration, KubeSchedulerProfile],
)
def test_every_field_is_described(model: type) -> None:
    missing = {info.alias for info in model.model_fields.values() if f"{info.alias}" not in TEXT}
    assert missing <= {"apiVersion", "kind"}


@pytest.mark.parametrize("name", [plugin.name for plugin in descriptors() if plugin.args_model])
def test_every_arg_is_described(name: str) -> None:
    model = next(plugin.args_model for plugin in descriptors() if plugin.name == name)
    assert name in TEXT
    if name != "PreemptionToleration":
        assert [info.alias for info in model.model_fields.values() if f"{info.alias}" not in TEXT] == []


def test_every_family_of_flavours_is_described() -> None:
    for name in flavour_names():
        assert name.partition("@")[0] in TEXT


@pytest.mark.parametrize(
    ("page", "row"),
    [("configuration.md", "| `ours` |"), ("guides/leave-for-the-go-scheduler.md", "| HighLoadFilter")],
)
def test_a_plugin_that_only_our_image_has_is_named_where_images_are_compared(page: str, row: str) -> None:
    (text,) = [line for line in (DOCS / page).read_text(encoding="utf-8").splitlines() if line.startswith(row)]
    ours = [plugin.name for plugin in descriptors() if plugin.points and plugin.flavours == {"ours"}]
    assert len(ours) > 1
    assert [name for name in ours if name not in text] == []
