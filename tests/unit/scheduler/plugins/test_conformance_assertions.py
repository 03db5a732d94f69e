"""Every plugin module asserts, where mypy sees it, the Protocols of the extension points that its descriptor names."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from scheduler.catalog import lookup
from scheduler.catalog.descriptor import GO_INTERFACES
from scheduler.plugins import FACTORIES


def classes_of(name: str) -> list[type]:
    """The class of a plugin, or, where `compatibility` chooses, the classes of its package's door."""
    factory = FACTORIES[name]
    if inspect.isclass(factory):
        return [factory]
    module = importlib.import_module(factory.__module__)
    return [value for value in vars(module).values() if inspect.isclass(value) and hasattr(value, "name")]


CLASSES = [(name, plugin) for name in FACTORIES for plugin in classes_of(name)]


def asserted_protocols(plugin: type) -> set[str]:
    """The Protocols in assertions such as `_SCORE: type[ScorePlugin] = TargetLoadPacking` at the end of a module."""
    source = inspect.getsourcefile(plugin)
    assert source is not None
    return {
        ast.unparse(statement.annotation.slice)
        for statement in ast.parse(Path(source).read_text()).body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.annotation, ast.Subscript)
        and isinstance(statement.value, ast.Name)
        and statement.value.id == plugin.__name__
    }


@pytest.mark.parametrize(("name", "plugin"), CLASSES, ids=[plugin.__name__ for _, plugin in CLASSES])
def test_a_plugin_asserts_the_extension_points_of_its_descriptor(name: str, plugin: type) -> None:
    descriptor = lookup(name)
    assert descriptor is not None
    expected = {GO_INTERFACES[point] for point in descriptor.points}
    assert expected <= asserted_protocols(plugin)
