"""Every plugin has the Protocols of the extension points that its descriptor names as bases, where mypy checks it."""

import importlib
import inspect
import sys

import pytest

from scheduler import plugins
from scheduler.catalog import lookup
from scheduler.catalog.descriptor import GO_INTERFACES
from scheduler.framework import FilterPlugin
from scheduler.plugins import FACTORIES


def classes_of(name: str) -> list[type]:
    """The class of a plugin, or, where `compatibility` chooses, the classes of its package's door."""
    factory = FACTORIES[name]
    if inspect.isclass(factory):
        return [factory]
    module = importlib.import_module(factory.__module__)
    values = [value for name, value in vars(module).items() if not name.startswith("_") and inspect.isclass(value)]
    return [value for value in values if hasattr(value, "name") and value.__module__.startswith("scheduler.plugins.")]


CLASSES = [(name, plugin) for name in FACTORIES for plugin in classes_of(name)]


@pytest.mark.parametrize(("name", "plugin"), CLASSES, ids=[plugin.__name__ for _, plugin in CLASSES])
def test_a_plugin_has_the_extension_points_of_its_descriptor_as_bases(name: str, plugin: type) -> None:
    descriptor = lookup(name)
    assert descriptor is not None
    expected = {GO_INTERFACES[point] for point in descriptor.points}
    assert expected <= {base.__name__ for base in plugin.__mro__}
    # mypy looks for missing methods where a class is constructed, which for these is in no line that it sees.
    assert not inspect.isabstract(plugin)


def test_a_plugin_class_without_a_method_of_its_base_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutFilter(FilterPlugin):
        name = "WithoutFilter"

    monkeypatch.setattr(sys.modules[__name__], "WithoutFilter", WithoutFilter, raising=False)
    with pytest.raises(ValueError, match=r"cannot be called: it has no filter$"):
        plugins._import_object(f"{__name__}:WithoutFilter")
