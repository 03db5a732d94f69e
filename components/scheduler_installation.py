"""A secondary scheduler with everything that belongs to it, as one component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pulumi

from scheduler import operand
from scheduler.catalog import INSTANCE_NAME, STATUS_KINDS, operand_name, rebalancer_name

from ._inputs import known_image
from .crd import PluginCrds, PluginCrdsArgs
from .described import custom_plugins, describe_beside, describe_scheduler, describe_settings
from .document import CustomPlugin, load_document
from .drift import ForceConflicts
from .installation import Installation, InstallationArgs, OperatorArgs, install
from .load_watcher import LoadWatcher, LoadWatcherArgs
from .metric_credentials import MetricAccess, MetricCredentials, MetricCredentialsArgs, SecretKeyReference
from .namespace import cluster_scoped_name
from .opt_in import OptIn, OptInArgs, OptInRecord, OptInRecordArgs
from .page import Page, PageArgs
from .parts import Parts
from .rebalancer import Rebalancer, RebalancerArgs
from .scheduler import RunningScheduler, SchedulerArgs, run_scheduler
from .scheduler_configuration import SchedulerConfiguration, SchedulerConfigurationArgs
from .scheduler_names import claim_scheduler_names
from .settings import (
    CheckedConfiguration,
    ManagedLoadWatcher,
    OptInPlan,
    RebalancerPlan,
    checked_configuration,
    load_watcher_name,
)
from .settings_args import SettingsArgs


@dataclass(frozen=True, kw_only=True)
class SchedulerInstallationArgs(SettingsArgs, OperatorArgs):
    """Beside those of `SettingsArgs` and `OperatorArgs`. Attributes:
    settings: plugins, metricProvider, profiles and the other settings of a stack file that make the scheduler's
        configuration, with the names that they have there. They are checked as a stack file is: wrong ones fail the
        preview. Default: the default scheduler's profile under the name secondary-scheduler.
    configuration: instead of settings, a KubeSchedulerConfiguration as YAML, which is checked, too; or one that has
        been judged, with what is to be installed beside the scheduler.
    metric_access: how the scheduler, or its load-watcher, may read the metric source.
    load_watcher: beside a configuration that names its address; with settings it follows from them.
    custom_plugins: plugins that only a custom image has; with settings, their extraPlugins.
    resources: requests and limits of the scheduler's container; None for the default.
    env: environment variables of the scheduler's container, as Kubernetes has them; not with upstream's operator.
    runbook_url: address of the page with the runbooks, docs/runbooks.md, where it is published: alerts link to it.
    status_of: plurals of the kinds of scheduler-plugins whose status the operator maintains; None: those that plugins
        of the configuration read, or all if there are further instances.
    opt_in: which pods get the scheduler's name as they are created, with the names of a stack file's optIn; wrong ones
        fail the preview. Default: none.
    rebalance: whether pods are moved off overloaded nodes, and which, with the names of a stack file's rebalance; wrong
        ones fail the preview. Default: nothing is moved.
    page: a page in the cluster, with the names of a stack file's page; wrong ones fail the preview. Default: none.
    kubernetes_version: of the cluster, for opt_in; "" if it is not known.
    allow_default_scheduler_name: allow a profile named default-scheduler.
    beside: another installation on the same cluster. What a cluster has once (CRDs, ClusterRoles of schedulers, the
        PriorityClass) stays that one's, and is used here.
    formerly_at_root: the stack was made by a version whose components were at the root of the program; their state is
        kept. For one installation of a program only.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    configuration: str | CheckedConfiguration = ""
    metric_access: MetricAccess = field(default_factory=MetricAccess)
    load_watcher: ManagedLoadWatcher | None = None
    custom_plugins: Sequence[CustomPlugin] = ()
    resources: Mapping[str, Any] | None = None
    env: Sequence[Mapping[str, Any]] = ()
    runbook_url: str = ""
    status_of: Sequence[str] | None = None
    opt_in: Mapping[str, Any] = field(default_factory=dict)
    rebalance: Mapping[str, Any] = field(default_factory=dict)
    page: Mapping[str, Any] = field(default_factory=dict)
    kubernetes_version: str = ""
    allow_default_scheduler_name: bool = False
    beside: SchedulerInstallation | None = None
    formerly_at_root: bool = False


class SchedulerInstallation(pulumi.ComponentResource):
    """Namespace, operator or Deployment, configuration and credentials of one scheduler; done when it is available.

    A program may contain several, on different clusters or, in namespaces of their own, on one.
    """

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    ready_replicas: pulumi.Output[int]
    health: pulumi.Output[dict[str, Any]]
    operator: pulumi.Output[str]
    config_map_name: pulumi.Output[str]

    def __init__(self, name: str, args: SchedulerInstallationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        # The old kind, which the SDK applies: with transforms of its own, a packaged component would lose its user's.
        forced = pulumi.ResourceOptions(transformations=[ForceConflicts()])
        opts = pulumi.ResourceOptions.merge(opts, forced)
        super().__init__("secondary-scheduler:index:SchedulerInstallation", name, None, opts)
        self._parts = Parts(self, name, args.formerly_at_root)
        _check_resource_name(name, args)
        self._settings = describe_settings(args, openshift=args.openshift, name=name)
        self._args, self._checked = self._judged(args)
        self._configuration = self._checked.configuration
        claim_scheduler_names(self, name, self._configuration.scheduler_names)
        self._operand = operand_name(args.resource_name)
        self._rebalance = self._checked.rebalance
        self._crds = self._plugin_crds()
        installation = install(self._installation_args(), self._parts)
        self.cluster_roles: frozenset[str] = frozenset(installation.roles)
        if args.beside is not None:
            self.cluster_roles |= args.beside.cluster_roles
        self.has_crd: bool = installation.crd or (args.beside is not None and args.beside.has_crd)
        credentials = self._metric_credentials(installation)
        configuration = self._scheduler_configuration(installation)
        watcher = self._load_watcher(installation, credentials)
        scheduler_args = self._scheduler_args(installation, configuration, None if watcher else credentials, watcher)
        if self._checked.opt_in is None:
            scheduler = run_scheduler(installation, scheduler_args, self._parts)
        else:
            scheduler = self._run_opted_in(installation, scheduler_args, self._checked.opt_in)
        self._rebalancer(installation, configuration, credentials, scheduler)
        self._page(installation, configuration, credentials, watcher)
        self.priority_class_name: pulumi.Output[str] | None = scheduler.priority_class_name
        self.name, self.namespace = scheduler.resource.name, scheduler.resource.namespace
        self.ready_replicas = scheduler.resource.ready_replicas
        self.health = scheduler.resource.health
        self.operator = installation.operator
        self.config_map_name = configuration.config_map_name
        self.register_outputs(
            {
                "name": self.name,
                "namespace": self.namespace,
                "readyReplicas": self.ready_replicas,
                "health": self.health,
                "operator": self.operator,
                "configMapName": self.config_map_name,
            }
        )

    def _judged(self, args: SchedulerInstallationArgs) -> tuple[SchedulerInstallationArgs, CheckedConfiguration]:
        """The Args with what follows from their settings, and the configuration as the scheduler loads it."""
        if isinstance(args.configuration, CheckedConfiguration):
            return args, args.configuration
        args, checked = (args, self._loaded(args, args.configuration)) if args.configuration else self._described(args)
        return args, describe_beside(
            checked,
            args.mode,
            self._settings,
            opt_in=args.opt_in,
            kubernetes_version=args.kubernetes_version,
            rebalance=args.rebalance,
            page=args.page,
            upstream=args.upstream_operator,
            component=self,
            name=self._parts.prefix,
        )

    def _loaded(self, args: SchedulerInstallationArgs, content: str) -> CheckedConfiguration:
        name, rules = self._parts.prefix, args.metric_access.rules
        image = known_image(args.image, args.flavour or args.settings.get("flavour"), name)
        if args.settings:
            raise pulumi.RunError(f"{name}: must hold either settings or configuration")
        configuration = load_document(
            content,
            source=f"{name}: configuration",
            flavour=args.flavour,
            image=image,
            custom_plugins=args.custom_plugins,
            credential_rules=rules,
            allow_token_in_config_map=args.metric_access.in_configuration,
            allow_default_scheduler_name=args.allow_default_scheduler_name,
        )
        checked = checked_configuration(content, configuration, [], configuration.flavour, rules)
        return replace(checked, load_watcher=args.load_watcher)

    def _described(self, args: SchedulerInstallationArgs) -> tuple[SchedulerInstallationArgs, CheckedConfiguration]:
        name = self._parts.prefix
        image = known_image(args.image, args.flavour or args.settings.get("flavour"), name)
        if args.custom_plugins:
            raise pulumi.RunError(f"{name}: custom_plugins: are for configuration; with settings, use extraPlugins")
        also = {"flavour": args.flavour, "allowDefaultSchedulerName": args.allow_default_scheduler_name}
        source = f"{name}: settings"
        checked, settings, access = describe_scheduler(
            {**{key: value for key, value in also.items() if value}, **args.settings},
            source=source,
            image=image,
            access=args.metric_access,
            operand=operand_name(args.resource_name),
        )
        for warning in checked.warnings:
            pulumi.log.warn(str(replace(warning, source=source)), self)
        changed = replace(
            args,
            metric_access=access,
            flavour=settings.flavour or "",
            custom_plugins=custom_plugins(settings),
            allow_default_scheduler_name=settings.allow_default_scheduler_name,
        )
        return changed, checked

    @property
    def plugin_crds(self) -> frozenset[str]:
        """The CRDs of plugins that this installation and those beside it need, as `plural.group`."""
        beside = self._args.beside
        return frozenset(self._checked.crds) | (beside.plugin_crds if beside else frozenset())

    @property
    def _rebalance_by_operator(self) -> RebalancerPlan | None:
        """What the operator is told about a rebalancer; None where it is to run none."""
        plan = self._rebalance
        return plan if plan is not None and plan.by_operator else None

    def _plugin_crds(self) -> list[pulumi.Resource]:
        args, beside = self._args, self._args.beside
        names = set(self._checked.crds) - (beside.plugin_crds if beside else frozenset())
        if not names or not self._settings.install_plugin_crds:
            return []
        crds_args = PluginCrdsArgs(sorted(names), args.keep_crds, self._settings.protect)
        return [PluginCrds(self._parts.name("plugin-crds"), crds_args, self._parts.options("plugin-crds"))]

    def _installation_args(self) -> InstallationArgs:
        args, beside = self._args, self._args.beside
        access = args.metric_access
        enabled = {name for profile in self._configuration.profiles for name in profile.enabled}
        read = [kind for kind in STATUS_KINDS if f"{kind}.scheduling.x-k8s.io" in self._checked.crds]
        status_of = (STATUS_KINDS if args.instances else read) if args.status_of is None else args.status_of
        instances = list(args.instances)
        if args.resource_name != INSTANCE_NAME:
            instances.append((None, args.resource_name))
        return InstallationArgs(
            **{
                **{each.name: getattr(args, each.name) for each in fields(OperatorArgs)},
                "instances": instances,
                "rebalancers": args.rebalancers or self._rebalance_by_operator is not None,
            },
            settings=self._settings,
            plugins=sorted(enabled),
            extra_roles=self._checked.extra_roles,
            other_roles=beside.cluster_roles if beside else (),
            with_crd=beside is None or not beside.has_crd,
            crds=[*self._crds, *([beside] if beside else [])],
            status_of=status_of,
            secrets=[access.existing_secret] if access.existing_secret and not self._checked.load_watcher else [],
            rebalancer_image=self._rebalance_by_operator.image if self._rebalance_by_operator else "",
        )

    def _metric_credentials(self, installation: Installation) -> MetricCredentials | None:
        access = self._args.metric_access
        if access.token is None and not access.existing_secret and access.cluster_role is None:
            return None
        reader = load_watcher_name(self._operand) if self._checked.load_watcher else self._operand
        credentials_args = MetricCredentialsArgs(
            installation.namespace,
            service_account=reader,
            secret_name=f"{reader}-metrics",
            token=access.token,
            certificate_authority=access.certificate_authority,
            existing_secret=(
                SecretKeyReference(access.existing_secret, access.existing_key) if access.existing_secret else None
            ),
            cluster_role=access.cluster_role,
            binding_prefix=cluster_scoped_name("", self._args.namespace),
            # The operator may bind no role but its own.
            rebalancer=rebalancer_name(self._operand)
            if self._rebalance_by_operator is not None and not self._checked.load_watcher
            else None,
        )
        part = "metric-credentials"
        return MetricCredentials(self._parts.name(part), credentials_args, self._parts.options(part))

    def _load_watcher(self, installation: Installation, credentials: MetricCredentials | None) -> LoadWatcher | None:
        if self._checked.load_watcher is None:
            return None
        watcher_args = LoadWatcherArgs(
            **self._beside(installation.namespace, [credentials]),
            watcher=self._checked.load_watcher,
            credentials=credentials.reference if credentials else None,
            audience=self._args.metric_access.audience,
            rebalancer=self._rebalance is not None,
            page=self._checked.page is not None,
        )
        return LoadWatcher(self._parts.name("load-watcher"), watcher_args, self._parts.options("load-watcher"))

    def _beside(self, namespace: pulumi.Input[str], needs: Sequence[pulumi.Resource | None]) -> dict[str, Any]:
        """The Args of what stands beside the scheduler."""
        return {
            "namespace": namespace,
            "operand": self._operand,
            "settings": self._settings,
            "openshift": self._args.openshift,
            "needs": [part for part in needs if part is not None],
        }

    def _reading(self, configuration: SchedulerConfiguration, credentials: MetricCredentials | None) -> dict[str, Any]:
        """The Args of what reads configuration and load as the scheduler does; a load-watcher asks for no token."""
        own = self._checked.load_watcher is None
        return {
            "configuration": self._configuration,
            "config_map_name": configuration.config_map_name,
            "access": self._args.metric_access if own else MetricAccess(),
            "credentials": credentials.reference if own and credentials else None,
        }

    def _rebalancer(
        self,
        installation: Installation,
        configuration: SchedulerConfiguration,
        credentials: MetricCredentials | None,
        scheduler: RunningScheduler,
    ) -> None:
        """A rebalancer, if one is asked for that no operator runs, once the scheduler runs; deleted before it."""
        plan = self._rebalance
        if plan is None or plan.by_operator:
            return
        rebalancer_args = RebalancerArgs(
            # Of the mode: our operator makes objects of these names. Nothing is moved without the scheduler.
            **self._beside(installation.namespace_of_mode, [scheduler.resource]),
            **self._reading(configuration, credentials),
            plan=plan,
            image=self._args.image,
        )
        Rebalancer(self._parts.name("rebalancer"), rebalancer_args, self._parts.options("rebalancer"))

    def _page(
        self,
        installation: Installation,
        configuration: SchedulerConfiguration,
        credentials: MetricCredentials | None,
        watcher: LoadWatcher | None,
    ) -> None:
        """The page, if the settings name one; it does not need a scheduler that runs."""
        if self._checked.page is None:
            return
        page_args = PageArgs(
            **self._beside(installation.namespace, [configuration, credentials, watcher]),
            **self._reading(configuration, credentials),
            plan=self._checked.page,
        )
        Page(self._parts.name("page"), page_args, self._parts.options("page"))

    def _run_opted_in(self, installation: Installation, args: SchedulerArgs, plan: OptInPlan) -> RunningScheduler:
        """The scheduler and, once it serves its pods, what gives it more of them; deleted in the opposite order."""
        record_args = OptInRecordArgs(installation.namespace_of_mode, plan, self._operand, installation.needs[:1])
        record = OptInRecord(self._parts.name("opt-in-record"), record_args, self._parts.options("opt-in-record"))
        scheduler = run_scheduler(installation, replace(args, needs=[*args.needs, record]), self._parts)
        opt_in_args = OptInArgs(plan, installation.namespace, record.policy_prefix, [record, scheduler.resource])
        OptIn(self._parts.name("opt-in"), opt_in_args, self._parts.options("opt-in"))
        return scheduler

    def _scheduler_configuration(self, installation: Installation) -> SchedulerConfiguration:
        configuration_args = SchedulerConfigurationArgs(
            installation.namespace,
            f"{self._operand}-config",
            self._checked.content,
            self._args.metric_access.in_configuration,
            checked=self._configuration,
        )
        part = "configuration"
        return SchedulerConfiguration(self._parts.name(part), configuration_args, self._parts.options(part))

    def _scheduler_args(
        self,
        installation: Installation,
        configuration: SchedulerConfiguration,
        credentials: MetricCredentials | None,
        watcher: LoadWatcher | None,
    ) -> SchedulerArgs:
        args = self._args
        # What a load-watcher may read is no concern of the scheduler's.
        access = MetricAccess() if watcher else args.metric_access
        return SchedulerArgs(
            installation.namespace_of_mode,
            args.image,
            configuration.config_map_name,
            configuration.configuration_hash,
            self._settings,
            args.flavour,
            list(self._configuration.scheduler_names),
            credentials.reference if credentials else None,
            self._configuration.bound_rules(access.rules),
            access.audience,
            resources=args.resources,
            env=args.env,
            needs=[part for part in (configuration, credentials, watcher) if part is not None],
            source_ports=operand.source_ports(self._configuration),
            extra_plugins={plugin.name: list(plugin.points) for plugin in args.custom_plugins},
            allow_default_scheduler_name=args.allow_default_scheduler_name,
            allow_token_in_config_map=args.metric_access.in_configuration,
            resource_name=args.resource_name,
            rebalance=self._rebalance_by_operator,
            existing_priority_class=args.beside.priority_class_name if args.beside else None,
            operand=self._operand,
            runbooks=args.runbook_url,
            rebalanced=self._rebalance is not None,
        )


def _check_resource_name(name: str, args: SchedulerInstallationArgs) -> None:
    """Refuse a name that nobody would serve.

    Raises:
        pulumi.RunError: the operator of this install mode knows the usual name only, or there is none.
    """
    if args.resource_name == INSTANCE_NAME:
        return
    if args.upstream_operator:
        reason = "OpenShift's own operator serves no other"
    elif args.mode == "direct":
        reason = "mode direct makes no SecondaryScheduler"
    elif args.mode in ("olm", "catalog"):
        reason = "the operator that OLM installs has rights for no other"
    else:
        return
    raise pulumi.RunError(f'{name}: resource_name: must be "{INSTANCE_NAME}": {reason}')
