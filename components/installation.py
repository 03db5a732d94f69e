"""Which components an install mode consists of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi

from scheduler import operand
from scheduler.catalog import (
    GO_CLUSTER_ROLES,
    INSTANCE_NAME,
    METRICS_READER_CLUSTER_ROLE,
    REBALANCER_CLUSTER_ROLE,
    PolicyRule,
    operand_name,
    shipped_cluster_roles,
)
from scheduler.config import SchedulerSettings

from ._inputs import flavour_of_input
from .admission import AdmissionPolicies, AdmissionPoliciesArgs
from .catalog_source import CatalogSource, CatalogSourceArgs
from .crd import SecondarySchedulerCrd, SecondarySchedulerCrdArgs
from .installation_record import InstallationRecord, InstallationRecordArgs
from .namespace import NAMESPACE, Namespace, NamespaceArgs, cluster_scoped_name
from .olm_operator import OlmOperator, OlmOperatorArgs
from .operator_install import (
    OPERATOR_NAME,
    ExistingOperator,
    ExistingOperatorArgs,
    OperatorInstall,
    OperatorInstallArgs,
)
from .operator_network import OperatorNetwork, OperatorNetworkArgs
from .parts import Parts
from .scheduler_roles import SchedulerRoles, SchedulerRolesArgs
from .upstream_operator import UpstreamOperator, UpstreamOperatorArgs

InstallMode = Literal["manifests", "direct", "none", "olm", "catalog"]


@dataclass(frozen=True)
class OlmSource:
    """Where OLM finds the operator; `catalog_image` or `catalog_address` if the stack creates the catalogue.

    `ready_seconds` limits each step; without it each step has its own default.
    """

    package: pulumi.Input[str]
    channel: pulumi.Input[str]
    source: pulumi.Input[str]
    source_namespace: pulumi.Input[str]
    starting_csv: pulumi.Input[str] | None = None
    approval: Literal["Automatic", "Manual"] = "Automatic"
    catalog_image: pulumi.Input[str] | None = None
    catalog_address: pulumi.Input[str] | None = None
    ready_seconds: int | None = None


@dataclass(frozen=True, kw_only=True)
class OperatorArgs:
    """Attributes:
    image, flavour: the scheduler's image, and its flavour where the name does not show it, or where the image is an
        Output: what follows from its name must be known before the update.
    mode: how the operator is installed, if there is one.
    namespace: where operator and scheduler run. Several installations on one cluster have a namespace each; upstream's
        operator knows the usual one only.
    resource_name: name of the SecondaryScheduler, with our operator in modes manifests and none. In mode none the
        operator must serve it: as one of the `instances` of the installation that has it.
    operator_image: for mode manifests.
    upstream_operator: the operator is upstream's, which binds the cluster's own ClusterRoles only.
    olm: where OLM finds the operator, for modes olm and catalog.
    adopting: provider of the same cluster that adopts objects which others create, for these two modes and upstream's
        operator: see `ClusterProvider.adopting`.
    openshift: whether the cluster is OpenShift.
    instances: further SecondarySchedulers that the operator serves, by namespace (None: its own) and name.
    allowed_images: repositories of images that a SecondaryScheduler may name, beside that of `image`.
    rebalancers: our operator may run rebalancers for `instances`, too; it may for this one's.
    keep_crds: keep the CRDs when the installation is destroyed.
    """

    image: pulumi.Input[str]
    flavour: str = ""
    mode: InstallMode = "manifests"
    namespace: pulumi.Input[str] = NAMESPACE
    resource_name: str = INSTANCE_NAME
    operator_image: pulumi.Input[str] | None = None
    upstream_operator: bool = False
    olm: OlmSource | None = None
    adopting: pulumi.ProviderResource | None = None
    openshift: bool = False
    instances: Sequence[tuple[str | None, str]] = ()
    allowed_images: Sequence[pulumi.Input[str]] = ()
    rebalancers: bool = False
    keep_crds: bool = False


@dataclass(frozen=True, kw_only=True)
class InstallationArgs(OperatorArgs):
    """Attributes:
    settings: what is the same however the operator is installed.
    plugins: enabled ones; the scheduler's rights follow from them.
    extra_roles: rules of enabled plugins that are not in the catalogue, by the name of the role to create.
    other_roles: ClusterRoles of schedulers that another installation on this cluster creates.
    with_crd: create the CRD of SecondaryScheduler, if the mode does; False where another installation has it.
    crds: of plugins; they exist before the operator starts.
    status_of: kinds whose status our operator maintains.
    secrets: names of Secrets, not made by this stack, that its scheduler mounts.
    rebalancer_image: an image that rebalancers may have beside the scheduler's; "" for none.
    """

    settings: SchedulerSettings
    plugins: Collection[str]
    extra_roles: Mapping[str, Sequence[PolicyRule]]
    other_roles: Collection[str]
    with_crd: bool
    crds: Sequence[pulumi.Resource]
    status_of: Sequence[str]
    secrets: Sequence[str]
    rebalancer_image: str


@dataclass(frozen=True)
class Installation:
    """What the scheduler's components depend on.

    Attributes:
        namespace: for objects that exist in every mode.
        namespace_of_mode: the same, for objects that must be deleted before another mode's are created.
        needs: what must exist before the scheduler, and outlive it.
        operator: the running operator: its image, its ClusterServiceVersion, or nothing if it is not known.
        roles: ClusterRoles of schedulers that it creates.
        crd: whether it brings the CRD of SecondaryScheduler, itself or through OLM.
    crd_changes: in a preview, whether the update changes which SecondarySchedulers the CRD accepts.
        adopting, mode, upstream, openshift: as given in the Args.
    """

    mode: InstallMode
    upstream: bool
    openshift: bool
    namespace: pulumi.Output[str]
    namespace_of_mode: pulumi.Output[str]
    needs: list[pulumi.Resource]
    operator: pulumi.Output[str]
    roles: Collection[str] = ()
    crd: bool = False
    adopting: pulumi.ProviderResource | None = None
    crd_changes: pulumi.Input[bool] = False

    @property
    def brings_our_operator(self) -> bool:
        """Whether there is an operator of ours that this installation, or OLM for it, installs."""
        return self.mode in ("manifests", "olm", "catalog") and not self.upstream


def install(args: InstallationArgs, parts: Parts) -> Installation:
    """Register the components of an install mode, up to and including the operator."""
    # Where an operator is already installed, its namespace exists.
    namespace = pulumi.Output.from_input(args.namespace)
    if args.mode != "none":
        namespace_args = NamespaceArgs(args.namespace, protect=args.settings.protect)
        namespace = Namespace(parts.name("namespace"), namespace_args, parts.options("namespace")).name
    record_args = InstallationRecordArgs(namespace, args.mode, f"{operand_name(args.resource_name)}-installation")
    record = InstallationRecord(parts.name("installation"), record_args, parts.options("installation"))
    roles, bound = _wanted_roles(args, parts.prefix)
    crd_changes: pulumi.Input[bool] = False
    needs = [*args.crds, *_roles(args, roles, bound, record, parts)]
    operator: ExistingOperator | OperatorInstall | UpstreamOperator | OlmOperator | None = None
    if args.mode == "none":
        existing = ExistingOperatorArgs(record.namespace)
        operator = ExistingOperator(parts.name("operator"), existing, parts.options("operator"))
    elif args.mode == "manifests":
        if args.with_crd:
            crd_args = SecondarySchedulerCrdArgs(args.keep_crds, args.settings.protect)
            crd = SecondarySchedulerCrd(parts.name("crd"), crd_args, parts.options("crd"))
            needs, crd_changes = [crd, *needs], crd.changes
        needs += _limits(args, record, parts)
        operator = _from_manifests(args, record, needs, parts)
    elif args.mode != "direct":
        needs = [*needs, *_limits(args, record, parts)]
        operator = _through_olm(args, record, needs, parts)
    return Installation(
        args.mode,
        args.upstream_operator,
        args.openshift,
        namespace,
        record.namespace,
        [record, *needs, *([operator] if operator is not None else [])],
        operator.version if operator is not None else pulumi.Output.from_input(""),
        roles.keys(),
        args.mode != "direct",
        args.adopting,
        crd_changes,
    )


def _from_manifests(
    args: InstallationArgs, record: InstallationRecord, needs: Sequence[pulumi.Resource], parts: Parts
) -> OperatorInstall | UpstreamOperator:
    image = "" if args.operator_image is None else args.operator_image
    cluster_name = cluster_scoped_name(OPERATOR_NAME, args.namespace)
    if args.upstream_operator:
        upstream_args = UpstreamOperatorArgs(
            record.namespace, image, needs, args.openshift, cluster_name, args.settings.ready_seconds
        )
        return UpstreamOperator(parts.name("operator"), upstream_args, parts.options("operator"))
    install_args = OperatorInstallArgs(
        record.namespace,
        image,
        needs=needs,
        instances=args.instances,
        status_of=args.status_of,
        secrets=args.secrets,
        openshift=args.openshift,
        cluster_role_name=cluster_name,
        ready_seconds=args.settings.ready_seconds,
        rebalancers=args.rebalancers,
    )
    return OperatorInstall(parts.name("operator"), install_args, parts.options("operator"))


def _wanted_roles(args: InstallationArgs, source: str) -> tuple[Mapping[str, Sequence[PolicyRule]], list[str]]:
    """The ClusterRoles of schedulers that an installation creates, and those that it binds its scheduler to.

    `source` is the component, for messages. Our operator binds the scheduler itself, and only to those of the
    catalogue's plugins.
    """
    shipped = shipped_cluster_roles()
    if args.mode != "direct" and not args.upstream_operator:
        flavour = flavour_of_input(args.image, args.flavour, source)
        needed = {*operand.cluster_roles_for([(args.plugins, flavour)]), METRICS_READER_CLUSTER_ROLE}
        if args.rebalancers:
            needed.add(REBALANCER_CLUSTER_ROLE)
        elif args.mode == "manifests":
            shipped = {name: rules for name, rules in shipped.items() if name != REBALANCER_CLUSTER_ROLE}
        if args.mode == "manifests" and not args.instances:
            # Nobody else's plugins: a role that no scheduler needs is a right too many, and a line in every preview.
            shipped = {name: rules for name, rules in shipped.items() if name in needed}
        roles = {**({} if args.mode == "none" else shipped), **args.extra_roles}
        bind = list(args.extra_roles)
    else:
        flavour = flavour_of_input(args.image, args.flavour, source)
        bind = [*operand.cluster_roles_for([(args.plugins, flavour)]), *args.extra_roles]
        if args.mode != "direct":
            bind = [role for role in bind if role not in GO_CLUSTER_ROLES]
        needed = {*bind, METRICS_READER_CLUSTER_ROLE}
        roles = {name: rules for name, rules in {**shipped, **args.extra_roles}.items() if name in needed}
    return {name: rules for name, rules in roles.items() if name not in args.other_roles}, bind


def _roles(
    args: InstallationArgs,
    roles: Mapping[str, Sequence[PolicyRule]],
    bind: Sequence[str],
    record: InstallationRecord,
    parts: Parts,
) -> list[pulumi.Resource]:
    """The ClusterRoles of schedulers and of who reads their metrics, and the bindings where no operator creates them.

    Our OLM bundle contains the former too, and OLM would leave them behind; here the stack owns them, deletes them at
    the end, and keeps them when the install mode changes.
    """
    if not roles and not bind:
        return []
    bundled = shipped_cluster_roles() if args.mode in ("olm", "catalog") and not args.upstream_operator else ()
    roles_args = SchedulerRolesArgs(roles, bind, record.namespace, bundled, needs=[record])
    return [SchedulerRoles(parts.name("scheduler-roles"), roles_args, parts.options("scheduler-roles"))]


def _limits(args: InstallationArgs, record: InstallationRecord, parts: Parts) -> list[pulumi.Resource]:
    """What limits the operator and what it is told to run; not where the operator is somebody else's, who brings it."""
    limits: list[pulumi.Resource] = []
    if args.settings.objects.admission_policies:
        instances = [(None, INSTANCE_NAME), *args.instances]
        images = [args.image, *args.allowed_images, *filter(None, [args.rebalancer_image])]
        account = "" if args.upstream_operator else OPERATOR_NAME
        policies = AdmissionPoliciesArgs(
            images,
            record.namespace,
            instances,
            account,
            needs=[record],
            name_prefix=cluster_scoped_name("", args.namespace),
        )
        limits.append(AdmissionPolicies(parts.name("admission"), policies, parts.options("admission")))
    if args.settings.objects.network_policy and not args.upstream_operator:
        network = OperatorNetworkArgs(record.namespace, args.settings, needs=[record])
        limits.append(OperatorNetwork(parts.name("operator-network"), network, parts.options("operator-network")))
    return limits


def _through_olm(
    args: InstallationArgs,
    record: InstallationRecord,
    needs: Sequence[pulumi.Resource],
    parts: Parts,
) -> OlmOperator:
    olm = args.olm
    if olm is None or args.adopting is None:
        raise pulumi.RunError(f"{parts.prefix}: install mode {args.mode} needs olm and adopting in its Args")
    source, source_namespace = olm.source, olm.source_namespace
    if args.mode == "catalog":
        catalog_args = CatalogSourceArgs(record.namespace, olm.catalog_image, olm.catalog_address, olm.ready_seconds)
        source, source_namespace = _catalog(catalog_args, parts), record.namespace
    operator_args = OlmOperatorArgs(
        record.namespace,
        olm.package,
        olm.channel,
        source,
        source_namespace,
        adopting=args.adopting,
        approval=olm.approval,
        starting_csv=olm.starting_csv,
        ready_seconds=olm.ready_seconds,
        needs=needs,
    )
    return OlmOperator(parts.name("operator"), operator_args, parts.options("operator"))


def _catalog(args: CatalogSourceArgs, parts: Parts) -> pulumi.Output[str]:
    return CatalogSource(parts.name("catalog"), args, parts.options("catalog")).name
