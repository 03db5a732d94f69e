"""What an update would delete that a live stack's pods depend on."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components.settings import CheckedConfiguration
from scheduler.config import load_configuration
from stacks.removal import check_removals, removals
from stacks.settings import StackSettings

NAMESPACE = "openshift-secondary-scheduler-operator"
IMAGE = "quay.io/example/secondary-scheduler/kube-scheduler:0.2.0"
HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: mine\n"
)
OPERATOR = f"Deployment {NAMESPACE}/secondary-scheduler-operator, the operator"
RESOURCE = f"SecondaryScheduler {NAMESPACE}/cluster, and with it the running scheduler"
SCHEDULER = f"Deployment {NAMESPACE}/secondary-scheduler, the running scheduler"
CRD = (
    "CustomResourceDefinition secondaryschedulers.operator.openshift.io, "
    "and with it every SecondaryScheduler of the cluster"
)
POD_GROUPS = "CustomResourceDefinition podgroups.scheduling.x-k8s.io, and with it every PodGroup of the cluster"
EVERYTHING = f"Namespace {NAMESPACE}, and with it everything in it"
SUBSCRIPTION = f"Subscription {NAMESPACE}/secondary-scheduler-operator, and with it the operator"


def resource(component: str, kind: str, name: str, *, namespaced: bool = True, **outputs: Any) -> dict[str, Any]:
    """One resource of a state, as the engine hands it over."""
    parents = f"secondary-scheduler:index:SchedulerInstallation$secondary-scheduler:components:{component}"
    urn = f"urn:pulumi:prod::secondary-scheduler::{parents}$kubernetes:some/v1:{kind}::{name}"
    metadata = {"name": name, "namespace": NAMESPACE} if namespaced else {"name": name}
    return {urn: {"type": f"kubernetes:some/v1:{kind}", "outputs": {"metadata": metadata, **outputs}}}


def crd(component: str, name: str, kind: str) -> dict[str, Any]:
    names = {"names": {"kind": kind}}
    return resource(component, "CustomResourceDefinition", name, namespaced=False, spec=names)


def live(mode: str, *parts: dict[str, Any], recorded: bool = True) -> dict[str, Any]:
    """A stack's state with these parts, and what every stack has."""
    provider = {
        "urn:pulumi:prod::secondary-scheduler::pulumi:providers:kubernetes::cluster": {
            "type": "pulumi:providers:kubernetes",
            "outputs": {"clusterIdentifier": "prod"},
        },
        "urn:pulumi:prod::secondary-scheduler::pulumi:pulumi:Stack::secondary-scheduler-prod": {
            "type": "pulumi:pulumi:Stack",
            "outputs": {},
        },
    }
    record = resource("InstallationRecord", "ConfigMap", "record", data={"installMode": mode}) if recorded else {}
    state = provider | record
    for part in parts:
        state |= part
    return state


def of_manifests(recorded: bool = True) -> dict[str, Any]:
    return live(
        "manifests",
        resource("SecondaryScheduler", "SecondaryScheduler", "cluster"),
        resource("OperatorInstall", "Deployment", "secondary-scheduler-operator"),
        resource("Page", "Deployment", "secondary-scheduler-page"),
        crd("SecondarySchedulerCrd", "secondaryschedulers.operator.openshift.io", "SecondaryScheduler"),
        resource("Namespace", "Namespace", NAMESPACE, namespaced=False),
        recorded=recorded,
    )


def of_direct() -> dict[str, Any]:
    return live(
        "direct",
        resource("DirectScheduler", "Deployment", "secondary-scheduler"),
        resource("Namespace", "Namespace", NAMESPACE, namespaced=False),
        crd("PluginCrds", "podgroups.scheduling.x-k8s.io", "PodGroup"),
    )


def of_olm(package: str) -> dict[str, Any]:
    return live(
        "olm",
        resource("OlmOperator", "Subscription", package),
        resource("SecondaryScheduler", "SecondaryScheduler", "cluster"),
        resource("Namespace", "Namespace", NAMESPACE, namespaced=False),
    )


def gone(
    state: dict[str, Any], *, crds: tuple[str, ...] = (), identifier: str = "prod", **settings: Any
) -> dict[str, str]:
    """The reason by object."""
    document = {"schedulerImage": IMAGE, **settings}
    profile = CheckedConfiguration(HEAD, load_configuration(HEAD, source="a test"), crds=crds)
    settings = StackSettings.model_validate(document)
    return {removal.shown: removal.reason for removal in removals(state, settings, profile, identifier)}


def test_a_new_stack_and_one_whose_state_is_unknown_remove_nothing() -> None:
    assert gone({}) == gone({}, installMode="none") == {}


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "from before the record"])
def test_mode_none_on_a_live_stack_removes_all_that_it_runs_on(recorded: bool) -> None:
    why = "installMode is none and was manifests" if recorded else "installMode is none"
    removed = gone(of_manifests(recorded), installMode="none")
    # Without the record nothing says that the resource is replaced; it is registered in both modes.
    assert removed == dict.fromkeys([*([RESOURCE] if recorded else []), OPERATOR, CRD, EVERYTHING], why)


def test_the_same_mode_removes_nothing() -> None:
    assert gone(of_manifests()) == {}
    assert gone(of_direct(), installMode="direct", crds=("podgroups.scheduling.x-k8s.io",)) == {}
    package = "openshift-secondary-scheduler-operator"
    assert gone(of_olm(package), installMode="olm") == {}


def test_another_mode_in_the_same_namespace_keeps_only_the_namespace() -> None:
    why = "installMode is direct and was manifests"
    assert gone(of_manifests(), installMode="direct") == dict.fromkeys([RESOURCE, OPERATOR, CRD], why)
    why = "installMode is manifests and was direct"
    assert gone(of_direct(), crds=("podgroups.scheduling.x-k8s.io",)) == {SCHEDULER: why}


def test_another_subscription_replaces_the_operator() -> None:
    removed = gone(of_olm("secondary-scheduler-operator"), installMode="olm")
    assert removed == {SUBSCRIPTION: "operator: openshift-secondary-scheduler-operator"}
    catalog = {"operator": {"catalog": {"address": "registry.example.com:50051"}}}
    removed = gone(of_olm("secondary-scheduler-operator"), installMode="catalog", **catalog)
    assert list(removed) == [SUBSCRIPTION, RESOURCE]


def test_another_flavour_of_the_operator_replaces_it() -> None:
    upstream = {"operator": {"flavour": "upstream"}, "operatorImage": "quay.io/example/upstream:1"}
    assert gone(of_manifests(), **upstream) == {OPERATOR: "operator.flavour is upstream"}


def test_a_plugins_crd_goes_with_the_plugin_and_with_all_objects_of_the_cluster() -> None:
    assert gone(of_direct(), installMode="direct") == {POD_GROUPS: "no enabled plugin reads it"}
    needed = ("podgroups.scheduling.x-k8s.io",)
    removed = gone(of_direct(), installMode="direct", crds=needed, installPluginCrds=False)
    assert removed == {POD_GROUPS: "installPluginCrds is false"}


def test_a_crd_that_may_have_been_kept_says_so() -> None:
    (line,) = [line for line in gone(of_manifests(), installMode="direct", retainCrds=True) if "Definition" in line]
    assert line == f"{CRD} (it stays if an earlier update applied retainCrds)"


def test_another_name_of_the_cluster_removes_everything() -> None:
    removed = gone(of_manifests(), identifier="renamed")
    why = "cluster.clusterIdentifier is renamed and was prod"
    assert removed == dict.fromkeys([RESOURCE, OPERATOR, CRD, EVERYTHING], why)


def test_several_reasons_stand_each_above_what_goes_for_it() -> None:
    crd_of_plugin = crd("PluginCrds", "podgroups.scheduling.x-k8s.io", "PodGroup")
    settings = StackSettings.model_validate({"schedulerImage": IMAGE, "installMode": "none"})
    profile = CheckedConfiguration(HEAD, load_configuration(HEAD, source="a test"))
    with pytest.raises(pulumi.RunError) as raised:
        check_removals({**of_manifests(), **crd_of_plugin}, settings, profile, "prod")
    *lines, last = str(raised.value).splitlines()
    assert lines == [
        "this update would delete, because installMode is none and was manifests:",
        *(f"  {each}" for each in (RESOURCE, OPERATOR, CRD, EVERYTHING)),
        "and, because no enabled plugin reads it:",
        f"  {POD_GROUPS}",
    ]
    assert last.startswith("undo that change")


def test_a_live_stack_stays_in_its_namespace_whatever_is_allowed() -> None:
    for state in (of_manifests(), of_manifests(recorded=False)):
        settings = StackSettings.model_validate({"schedulerImage": IMAGE, "namespace": "team", "allowRemoval": True})
        profile = CheckedConfiguration(HEAD, load_configuration(HEAD, source="a test"))
        with pytest.raises(pulumi.RunError) as raised:
            check_removals(state, settings, profile, "prod")
        text = str(raised.value)
        assert text.startswith(f"namespace is team, and this stack lives in {NAMESPACE}: an update cannot move it")
        assert "move in two steps: pulumi destroy, then pulumi up with namespace team" in text
        check_removals({}, settings.model_copy(update={"allow_removal": False}), profile, "prod")
