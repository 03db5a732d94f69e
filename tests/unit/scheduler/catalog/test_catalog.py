"""The catalogue: names, roles, and that reading it stays light."""

import importlib.metadata
import inspect
import subprocess
import sys
from typing import get_args, get_type_hints

import pytest

from scheduler import catalog
from scheduler.catalog import ExtensionPoint, PluginDescriptor, registry
from scheduler.plugins import FACTORIES

METHODS = {
    ExtensionPoint.PRE_ENQUEUE: "pre_enqueue",
    ExtensionPoint.QUEUE_SORT: "sort_key",
    ExtensionPoint.PRE_FILTER: "pre_filter",
    ExtensionPoint.FILTER: "filter",
    ExtensionPoint.POST_FILTER: "post_filter",
    ExtensionPoint.PRE_SCORE: "pre_score",
    ExtensionPoint.SCORE: "score",
    ExtensionPoint.RESERVE: "reserve",
    ExtensionPoint.PERMIT: "permit",
    ExtensionPoint.PRE_BIND: "pre_bind",
    ExtensionPoint.BIND: "bind",
    ExtensionPoint.POST_BIND: "post_bind",
}
IMPLEMENTED = sorted(plugin.name for plugin in catalog.descriptors() if plugin.implemented and plugin.points)


def test_the_default_set_is_upstreams_in_order_with_its_weights() -> None:
    assert [(plugin.name, plugin.default_weight) for plugin in catalog.default_plugins()] == [
        ("SchedulingGates", 0), ("PrioritySort", 0), ("NodeUnschedulable", 0), ("NodeName", 0),
        ("TaintToleration", 3),
        ("NodeAffinity", 2), ("NodePorts", 0), ("NodeResourcesFit", 1), ("VolumeRestrictions", 0),
        ("NodeVolumeLimits", 0), ("VolumeBinding", 1), ("VolumeZone", 0), ("PodTopologySpread", 2),
        ("InterPodAffinity", 2), ("DynamicResources", 0),
        ("DefaultPreemption", 0), ("NodeResourcesBalancedAllocation", 1), ("ImageLocality", 1), ("DefaultBinder", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_an_implemented_plugin_has_a_constructor_that_extends_the_points_it_says(name: str) -> None:
    factory = FACTORIES[name]
    # A constructor may be a function that chooses one of several classes.
    returned = factory if inspect.isclass(factory) else get_type_hints(factory)["return"]
    classes = get_args(returned) or (returned,)
    for args_class in classes:
        for point in catalog.lookup(name).points:
            assert callable(getattr(args_class, METHODS[point])), point


def test_every_constructor_has_an_implemented_descriptor() -> None:
    assert sorted(FACTORIES) == IMPLEMENTED


def test_static_roles_are_the_base_and_one_per_usable_plugin_with_rules() -> None:
    roles = catalog.static_cluster_roles()
    assert next(iter(roles)) == "secondary-scheduler:base"
    assert "secondary-scheduler:plugin:targetloadpacking" in roles
    assert catalog.cluster_role_name("TargetLoadPacking") in roles
    for name, rules in roles.items():
        assert rules, name
        for rule in rules:
            assert "*" not in (*rule.api_groups, *rule.resources, *rule.verbs), name
            assert "secrets" not in rule.resources


def test_the_base_role_writes_bindings_status_events_and_reviews_only() -> None:
    written = {
        (resource, verb)
        for rule in catalog.base_rules()
        for resource in rule.resources
        for verb in rule.verbs
        if verb not in ("get", "list", "watch")
    }
    reviews = {("tokenreviews", "create"), ("subjectaccessreviews", "create")}
    events = {("events", "create"), ("events", "patch")}
    assert written == {("pods/binding", "create"), ("pods/status", "patch"), *events, *reviews}


def test_a_rule_reads_as_in_a_cluster_role() -> None:
    rule = catalog.PolicyRule(("",), ("pods",), ("get",), ("p",))
    assert rule.to_dict() == {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["p"]}


def test_the_role_for_prometheus_reads_one_path_and_is_no_schedulers() -> None:
    (rule,) = catalog.shipped_cluster_roles()[catalog.METRICS_READER_CLUSTER_ROLE]
    assert rule.to_dict() == {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    assert catalog.METRICS_READER_CLUSTER_ROLE not in catalog.static_cluster_roles()


class EntryPoint:
    def __init__(self, name: str, target: object) -> None:
        self.name, self.value, self._target = name, f"package:{name}", target

    def load(self) -> object:
        return self._target


@pytest.fixture(autouse=True)
def fresh_registry() -> object:
    yield
    registry.out_of_tree_descriptors.cache_clear()


def test_an_installed_package_adds_its_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = catalog.PolicyRule(("",), ("pods",), ("patch",))
    mine = PluginDescriptor("Mine", frozenset({ExtensionPoint.SCORE}), implemented=True, factory="m:f", rules=(rule,))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [EntryPoint("mine", mine)])
    registry.out_of_tree_descriptors.cache_clear()
    assert catalog.lookup("Mine") is mine
    assert "Mine" in catalog.known_names()
    assert catalog.static_cluster_roles()["secondary-scheduler:plugin:mine"] == (rule,)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("text", "is not a PluginDescriptor"),
        (PluginDescriptor("Mine", frozenset()), "is not a PluginDescriptor with a factory"),
        (PluginDescriptor("NodeName", frozenset(), factory="m:f"), "a plugin named NodeName already exists"),
    ],
    ids=["no descriptor", "no factory", "taken name"],
)
def test_a_package_that_offers_nonsense_is_named(monkeypatch: pytest.MonkeyPatch, target: object, reason: str) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [EntryPoint("mine", target)])
    registry.out_of_tree_descriptors.cache_clear()
    with pytest.raises(catalog.PluginPackageError, match=reason):
        catalog.out_of_tree_descriptors()


def test_configuration_and_catalogue_import_nothing_heavy() -> None:
    code = (
        "import sys, scheduler.config, scheduler.catalog; "
        "heavy = ('numpy', 'aiohttp', 'kopf', 'kubernetes', 'msgspec', 'requests', 'yaml'); "
        "print(sorted(name for name in heavy if name in sys.modules))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
