"""The component of a whole installation: several in one program, on one cluster, and what it refuses."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pulumi
import pytest

import components
from scheduler import __version__
from tests.components.graph import STATUS, Graph, Registered, register

IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
OPERATOR_IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
_QUEUE_SORT = "{enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}"
GANGS = f"{{multiPoint: {{enabled: [{{name: Coscheduling}}]}}, queueSort: {_QUEUE_SORT}}}"
MODES = list(itertools.product(("manifests", "direct"), repeat=2))
CLUSTER_WIDE = {"CustomResourceDefinition", "PriorityClass", "ClusterRole"}


def configuration(name: str, plugins: str = "{}") -> str:
    profiles = f"profiles: [{{schedulerName: {name}, plugins: {plugins}}}]"
    return f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{profiles}\n"


def installation_args(name: str, **options: Any) -> components.SchedulerInstallationArgs:
    content = options.pop("configuration", configuration(name, options.pop("plugins", "{}")))
    return components.SchedulerInstallationArgs(
        image=IMAGE, operator_image=OPERATOR_IMAGE, configuration=content, **options
    )


def two(first: dict[str, Any], second: dict[str, Any], *, preview: bool) -> Graph:
    """Two installations on one cluster."""

    def program() -> None:
        opts = pulumi.ResourceOptions(providers=[components.ClusterProvider("cluster", cluster_identifier="c")])
        installation = components.SchedulerInstallation("first", installation_args("first", **first), opts)
        args = installation_args("second", namespace="second", beside=installation, **second)
        components.SchedulerInstallation("second", args, opts)

    return register(program, config={}, preview=preview, statuses=STATUS)


def identity(registered: Registered) -> tuple[str, str, str]:
    metadata = registered.manifest["metadata"]
    return registered.type, str(metadata.get("namespace", "")), str(metadata["name"])


@pytest.mark.parametrize("modes", MODES, ids="-".join)
def test_two_installations_on_one_cluster_share_no_object_and_no_name(modes: tuple[str, str]) -> None:
    plugins = {"plugins": GANGS}
    graph = two({"mode": modes[0], **plugins}, {"mode": modes[1], **plugins}, preview=False)
    urns = Counter(resource.urn for resource in graph.resources)
    assert [urn for urn, times in urns.items() if times > 1] == []
    objects = Counter(identity(each) for each in graph.objects)
    assert [each for each, times in objects.items() if times > 1] == []
    names = {resource.name for resource in graph.resources if not resource.type.startswith("pulumi:")}
    assert {name for name in names if not name.startswith(("first", "second"))} == set()


@pytest.mark.parametrize("modes", MODES, ids="-".join)
def test_both_schedulers_have_the_rights_they_need(modes: tuple[str, str]) -> None:
    graph = two({"mode": modes[0]}, {"mode": modes[1], "plugins": GANGS}, preview=False)
    roles = {each.object_name for each in graph.of("ClusterRole")}
    needed = "secondary-scheduler:plugin:coscheduling"
    assert needed in roles
    for mode, namespace in zip(modes, ("openshift-secondary-scheduler-operator", "second"), strict=True):
        bound = {
            subject["namespace"]
            for each in graph.of("ClusterRoleBinding")
            for subject in each.manifest["subjects"]
            if each.manifest["roleRef"]["name"] in roles
        }
        assert namespace in bound, mode
    assert {each.object_name for each in graph.of("CustomResourceDefinition")} >= {"podgroups.scheduling.x-k8s.io"}


def test_the_second_outlives_nothing_of_the_first_that_it_uses() -> None:
    graph = two({}, {}, preview=False)
    (scheduler,) = [
        each for each in graph.of("SecondaryScheduler") if each.manifest["metadata"]["namespace"] == "second"
    ]
    used = {each.urn for each in graph.objects if each.type.rpartition(":")[2] in CLUSTER_WIDE}
    assert used <= graph.before(scheduler)
    assert scheduler.manifest["spec"]["priorityClassName"] == "secondary-scheduler"


def test_installations_on_two_clusters_have_the_same_names_there() -> None:
    def program() -> None:
        for name in ("east", "west"):
            opts = pulumi.ResourceOptions(providers=[components.ClusterProvider(name, cluster_identifier=name)])
            components.SchedulerInstallation(f"{name}-scheduler", installation_args("s"), opts)

    graph = register(program, config={}, statuses=STATUS)
    by_provider: dict[str, set[tuple[str, str, str]]] = {}
    for each in graph.objects:
        by_provider.setdefault(each.provider.split("::")[-2], set()).add(identity(each))
    assert by_provider["east"] == by_provider["west"]
    assert len({resource.urn for resource in graph.resources}) == len(graph.resources)


@pytest.mark.parametrize("beside", [True, False])
def test_two_schedulers_of_one_name_on_one_cluster_are_refused_and_named(beside: bool) -> None:
    def program() -> None:
        provider = components.ClusterProvider("cluster", cluster_identifier="c")
        opts = pulumi.ResourceOptions(providers=[provider])
        first = components.SchedulerInstallation("first", installation_args("batch"), opts)
        args = installation_args("batch", namespace="second", beside=first if beside else None)
        again = components.ClusterProvider("again", cluster_identifier="c")
        components.SchedulerInstallation("second", args, pulumi.ResourceOptions(providers=[again]))

    for _ in range(2):  # what one program registered is nothing to the next one of the same process
        with pytest.raises(pulumi.RunError, match="second: schedulerName batch is that of first on the same cluster"):
            register(program, config={}, preview=True)


def test_an_operator_may_serve_two_resources_of_one_namespace() -> None:
    def program() -> None:
        provider = components.ClusterProvider("cluster", cluster_identifier="c")
        opts = pulumi.ResourceOptions(providers=[provider])
        args = installation_args("first", instances=[(None, "batch")])
        first = components.SchedulerInstallation("first", args, opts)
        args = installation_args("second", mode="none", resource_name="batch", beside=first)
        components.SchedulerInstallation("second", args, opts)

    graph = register(program, config={}, statuses=STATUS)
    assert {each.object_name for each in graph.of("SecondaryScheduler")} == {"cluster", "batch"}
    objects = Counter(identity(each) for each in graph.objects)
    assert [each for each, times in objects.items() if times > 1] == []
    maps = {each.object_name.rpartition("-")[0] for each in graph.of("ConfigMap")}
    assert maps == {
        "secondary-scheduler",
        "secondary-scheduler-config",
        "secondary-scheduler-batch",
        "secondary-scheduler-batch-config",
    }


def test_an_installation_under_another_name_brings_an_operator_that_serves_it() -> None:
    args = installation_args("s", resource_name="batch")
    graph = register(lambda: components.SchedulerInstallation("mine", args), config={}, statuses=STATUS)
    roles = [each.manifest["rules"] for each in graph.of("Role")]
    named = [rule for rules in roles for rule in rules if rule["resources"] == ["deployments"]]
    assert any("secondary-scheduler-batch" in rule.get("resourceNames", ()) for rule in named)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resource_name": "batch", "upstream_operator": True}, "OpenShift's own operator serves no other"),
        ({"resource_name": "batch", "mode": "direct"}, "makes no SecondaryScheduler"),
        ({"resource_name": "batch", "mode": "olm"}, "that OLM installs"),
        ({"plugins": "{score: {enabled: [{name: TargetPacking}]}}"}, "TargetPacking"),
        (
            {
                "configuration": configuration("s", "{score: {enabled: [{name: TargetLoadPacking}]}}").replace(
                    "plugins:", "pluginConfig: [{name: TargetLoadPacking, args: {targetUtilization: 500}}], plugins:"
                )
            },
            "targetUtilization",
        ),
        ({"configuration": "kind: Deployment"}, "configuration"),
        ({"mode": "olm"}, "adopting"),
        ({"flavour": "unheard-of"}, "unheard-of"),
    ],
    ids=["upstream", "direct", "olm", "plugin", "argument", "kind", "adopting", "flavour"],
)
def test_a_mistake_ends_the_preview_with_one_line_that_names_it(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pulumi.RunError) as error:
        register(
            lambda: components.SchedulerInstallation("mine", installation_args("s", **options)), config={}, preview=True
        )
    assert "mine" in str(error.value)
    assert message in str(error.value)


def test_the_configuration_by_itself_is_checked_too() -> None:
    args = components.SchedulerConfigurationArgs(
        "ns", "config", configuration("s", "{score: {enabled: [{name: Nope}]}}")
    )
    with pytest.raises(pulumi.RunError, match=r"mine: content.*Nope"):
        register(lambda: components.SchedulerConfiguration("mine", args), config={}, preview=True)


def test_an_image_that_is_known_late_is_in_manifests_and_annotations_and_never_as_text_of_an_output() -> None:
    image = IMAGE.replace(__version__, "late")

    def program() -> None:
        late = pulumi.Output.from_input(image)
        scheduler = components.SecondarySchedulerArgs("ns", late, pulumi.Output.from_input("config"), "0123")
        components.SecondaryScheduler("scheduler", scheduler)
        components.OperatorInstall("operator", components.OperatorInstallArgs("ns", late))
        components.UpstreamOperator("upstream", components.UpstreamOperatorArgs("ns", late))
        upstream = components.SecondaryScheduler("other", scheduler)
        rollout = components.OperandRolloutArgs(upstream, "ns", late, pulumi.Output.from_input("config"), None)
        components.OperandRollout("rollout", rollout)

    graph = register(program, config={}, statuses=STATUS)
    waiting = [
        str((each.manifest["metadata"].get("annotations") or {}).get("pulumi.com/waitFor", ""))
        for each in graph.objects
    ]
    assert sum(image in text for text in waiting) == 3
    for each in graph.objects:
        assert "Calling __str__ on an Output" not in str(each.manifest)
        assert "pulumi.output.Output" not in str(each.manifest)


def test_health_is_no_secret_though_a_value_of_the_spec_is() -> None:
    def program() -> None:
        env = [{"name": "TOKEN", "value": pulumi.Output.secret("canary")}]
        installation = components.SchedulerInstallation("mine", installation_args("mine", env=env))
        pulumi.export("health", installation.health)

    graph = register(program, config={}, preview=True, statuses=STATUS)
    assert graph.outputs["health"] == {"conditions": {}}


def test_the_stack_owns_no_spec_of_the_deployment_of_upstreams_operator() -> None:
    def program() -> None:
        args = components.SecondarySchedulerArgs("ns", IMAGE, "config", "0123")
        scheduler = components.SecondaryScheduler("scheduler", args)
        components.OperandRollout("rollout", components.OperandRolloutArgs(scheduler, "ns", IMAGE, "config", None))

    (deployment,) = register(program, config={}, statuses=STATUS).of("Deployment")
    assert set(deployment.manifest) <= {"apiVersion", "kind", "metadata"}
