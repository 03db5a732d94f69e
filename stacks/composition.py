"""From a stack's settings to the arguments of the components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import components
from components.settings import OptInPlan, PagePlan, RebalancerPlan, plan_page, plan_rebalancer
from scheduler.config import SchedulerSettings
from stacks.checking import opt_in_of
from stacks.loading import Stack


def cluster_provider(stack: Stack) -> components.ClusterProvider:
    """Register the provider of the stack's cluster."""
    settings = stack.settings
    return components.ClusterProvider(
        "cluster",
        cluster_identifier=stack.cluster_identifier,
        context=settings.cluster.context,
        kubeconfig=stack.kubeconfig,
        adopts=settings.adopt_existing,
    )


def installation_args(stack: Stack, cluster: components.ClusterProvider) -> components.SchedulerInstallationArgs:
    """Return the description of the stack's scheduler and of what belongs to it."""
    settings, operator, tracing = stack.settings, stack.settings.operator, stack.settings.tracing
    mode, upstream = settings.install_mode, operator.is_upstream(settings.install_mode)
    adopts = mode != "direct" and (upstream or mode in ("olm", "catalog"))
    shared = {name: getattr(settings, name) for name in SchedulerSettings.model_fields}
    if tracing is not None:
        shared["egress_ports"] = list({**dict.fromkeys(settings.egress_ports), tracing.port: None})
    return components.SchedulerInstallationArgs(
        **shared,
        image=settings.scheduler_image,
        configuration=stack.profile.content,
        mode=mode,
        namespace=settings.namespace,
        flavour=settings.flavour or "",
        operator_image=settings.operator_image,
        upstream_operator=upstream,
        olm=_olm_source(stack),
        adopting=cluster.adopting("cluster-adopting") if adopts else None,
        metric_access=_metric_access(stack),
        load_watcher=stack.profile.load_watcher,
        custom_plugins=components.custom_plugins(settings),
        resources=settings.resources.model_dump(exclude_defaults=True) if settings.resources else None,
        runbook_url=settings.alerts.runbook_url or "",
        env=tracing.environment() if tracing else (),
        allowed_images=settings.allowed_images,
        instances=[(instance.namespace, instance.name) for instance in operator.instances],
        status_of=operator.keeps_status_of(stack.profile.crds),
        openshift=settings.openshift,
        opt_in=_opt_in(stack),
        rebalance=_rebalance(stack),
        rebalancers=operator.rebalancers,
        page=_page(stack),
        allow_default_scheduler_name=settings.allow_default_scheduler_name,
        keep_crds=settings.keeps_crds,
        formerly_at_root=True,
    )


def _opt_in(stack: Stack) -> OptInPlan | Mapping[str, Any]:
    plan = opt_in_of(stack.settings, stack.profile)
    return {} if plan is None else plan


def _rebalance(stack: Stack) -> RebalancerPlan | Mapping[str, Any]:
    settings = stack.settings
    plan, _ = plan_rebalancer(settings.rebalance, stack.profile.configuration, pruned_by=settings.rebalance_pruned_by)
    return {} if plan is None else plan


def _page(stack: Stack) -> PagePlan | Mapping[str, Any]:
    plan, _ = plan_page(stack.settings.page, stack.profile.configuration)
    return {} if plan is None else plan


def _olm_source(stack: Stack) -> components.OlmSource:
    operator, mode = stack.settings.operator, stack.settings.install_mode
    catalog = operator.catalog
    source, source_namespace = operator.usual_source
    return components.OlmSource(
        operator.package_in(mode),
        operator.channel,
        source,
        source_namespace,
        starting_csv=operator.starting_csv,
        approval=operator.approval,
        catalog_image=catalog.image if catalog else None,
        catalog_address=catalog.address if catalog else None,
        ready_seconds=operator.ready_seconds,
    )


def _metric_access(stack: Stack) -> components.MetricAccess:
    credentials = stack.credentials
    secret = credentials.existing_secret
    return components.MetricAccess(
        credentials.token,
        credentials.certificate_authority,
        existing_secret=secret.name if secret else None,
        existing_key=secret.key if secret else "token",
        cluster_role=credentials.cluster_role,
        audience=credentials.audience,
        rules=credentials.rules,
        in_configuration=stack.profile.holds_token,
    )
