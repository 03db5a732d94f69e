"""The operator through OLM: a Subscription and the objects that OLM creates from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pulumi

from .kube_object import KubeObject, child, namespace_of, rollout_timeouts

_SUBSCRIPTIONS = "operators.coreos.com/v1alpha1"
_PATIENCE = 600
_PATIENCE_WITH_PEOPLE = 3600


@dataclass(frozen=True)
class OlmOperatorArgs:
    """Attributes:
    namespace: where the operator runs; it serves this namespace.
    package: the operator's name in the catalogue.
    channel: of the package.
    source, source_namespace: the CatalogSource.
    approval: Manual: a person approves each InstallPlan.
    starting_csv: first version to install; default: the channel's newest.
    ready_seconds: how long each step may take; default: ten minutes, and an hour for a person's approval.
    adopting: provider that adopts existing objects. OLM creates InstallPlan and ClusterServiceVersion; the stack must
        own them to wait for them, and to delete the latter in the end.
    needs: what must exist before.
    """

    namespace: pulumi.Input[str]
    package: pulumi.Input[str]
    channel: pulumi.Input[str]
    source: pulumi.Input[str]
    source_namespace: pulumi.Input[str]
    adopting: pulumi.ProviderResource
    approval: Literal["Automatic", "Manual"] = "Automatic"
    starting_csv: pulumi.Input[str] | None = None
    ready_seconds: int | None = None
    needs: Sequence[pulumi.Resource] = ()


class OlmOperator(pulumi.ComponentResource):
    """The operator that OLM installs; done when its ClusterServiceVersion has succeeded.

    It succeeds only when the CRDs it owns are established and its Deployment is available. Deleting only the
    Subscription would leave the operator running, so the stack deletes the ClusterServiceVersion too.
    """

    namespace: pulumi.Output[str]
    version: pulumi.Output[str]

    def __init__(self, name: str, args: OlmOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:OlmOperator", name, None, opts)
        self._prefix = name
        self._args = args
        namespace = pulumi.Output.from_input(args.namespace)
        group = self._object(
            "OperatorGroup",
            "operators.coreos.com/v1",
            args.package,
            spec={"targetNamespaces": [namespace]},
            depends_on=args.needs,
        )
        subscription = self._subscription([group])
        status = subscription.status.apply(lambda reported: dict(reported or {}))
        plan = status.apply(lambda reported: str((reported.get("installPlanRef") or {}).get("name", "")))
        self.version = status.apply(lambda reported: str(reported.get("currentCSV", "")))
        if args.approval == "Manual":
            pulumi.Output.all(namespace, status).apply(lambda values: _ask_for_approval(values[0], values[1], self))
        installed = self._object(
            "InstallPlan",
            _SUBSCRIPTIONS,
            plan,
            wait_for=["jsonpath={.status.phase}=Complete"],
            adopted=True,
            # It is OLM's record of the installation; deleting it would undo nothing.
            retain=True,
            seconds=_PATIENCE_WITH_PEOPLE if args.approval == "Manual" else _PATIENCE,
        )
        running = self._object(
            "ClusterServiceVersion",
            _SUBSCRIPTIONS,
            self.version,
            wait_for=["jsonpath={.status.phase}=Succeeded"],
            adopted=True,
            depends_on=[installed],
        )
        self.namespace = namespace_of(running)
        self.register_outputs({"namespace": self.namespace, "version": self.version})

    def _subscription(self, needs: Sequence[pulumi.Resource]) -> KubeObject:
        args = self._args
        spec: dict[str, Any] = {
            "name": args.package,
            "channel": args.channel,
            "source": args.source,
            "sourceNamespace": args.source_namespace,
            "installPlanApproval": args.approval,
        }
        if args.starting_csv is not None:
            spec["startingCSV"] = args.starting_csv
        wait_for = ["jsonpath={.status.installPlanRef.name}", "jsonpath={.status.currentCSV}"]
        if args.approval == "Automatic":
            wait_for.append("jsonpath={.status.state}=AtLatestKnown")
        return self._object(
            "Subscription", _SUBSCRIPTIONS, args.package, spec=spec, wait_for=wait_for, depends_on=needs
        )

    def _object(
        self,
        kind: str,
        api_version: str,
        object_name: pulumi.Input[str],
        *,
        wait_for: Sequence[str] = (),
        adopted: bool = False,
        retain: bool = False,
        depends_on: Sequence[pulumi.Resource] = (),
        seconds: int = _PATIENCE,
        **content: Any,
    ) -> KubeObject:
        metadata: dict[str, Any] = {"name": object_name, "namespace": self._args.namespace}
        if wait_for:
            metadata["annotations"] = {"pulumi.com/waitFor": json.dumps(list(wait_for))}
        options = child(
            self,
            depends_on=depends_on,
            retain_on_delete=retain or None,
            custom_timeouts=rollout_timeouts(self._args.ready_seconds or seconds),
        )
        if adopted:
            options.provider = self._args.adopting
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
        return KubeObject(f"{self._prefix}-{kind.lower()}", manifest, options)


def _ask_for_approval(namespace: str, status: dict[str, Any], component: pulumi.Resource) -> None:
    plan, version = (status.get("installPlanRef") or {}).get("name"), status.get("currentCSV")
    # OLM sometimes creates a second plan for the version that it has just installed, and waits for that one, too.
    pending = any(
        condition.get("type") == "InstallPlanPending" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    if plan and (pending or version != status.get("installedCSV")):
        patch = '{"spec":{"approved":true}}'
        pulumi.log.warn(
            f"InstallPlan {plan} installs {version} and waits for your approval: "
            f"kubectl -n {namespace} patch installplan {plan} --type merge -p '{patch}'",
            component,
        )
