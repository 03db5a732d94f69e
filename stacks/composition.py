"""From a stack's settings to the arguments of the components."""

from __future__ import annotations

import components
from scheduler.config import SchedulerSettings
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
    credentials = stack.credentials
    mode, upstream = settings.install_mode, operator.is_upstream(settings.install_mode)
    adopts = mode != "direct" and (upstream or mode in ("olm", "catalog"))
    shared = {name: getattr(settings, name) for name in SchedulerSettings.model_fields}
    if tracing is not None:
        shared["egress_ports"] = list({**dict.fromkeys(settings.egress_ports), tracing.port: None})
    return components.SchedulerInstallationArgs(
        **shared,
        image=settings.scheduler_image,
        configuration=stack.profile,
        mode=mode,
        namespace=settings.namespace,
        flavour=settings.flavour or "",
        operator_image=settings.operator_image,
        upstream_operator=upstream,
        olm=_olm_source(stack),
        adopting=cluster.adopting("cluster-adopting") if adopts else None,
        metric_access=components.MetricAccess.of(
            credentials,
            credentials.token,
            credentials.certificate_authority,
            in_configuration=stack.profile.holds_token,
        ),
        custom_plugins=components.custom_plugins(settings),
        resources=settings.resources.model_dump(exclude_defaults=True) if settings.resources else None,
        runbook_url=settings.alerts.runbook_url or "",
        env=tracing.environment() if tracing else (),
        allowed_images=settings.allowed_images,
        instances=[(instance.namespace, instance.name) for instance in operator.instances],
        status_of=operator.keeps_status_of(stack.profile.crds),
        openshift=settings.openshift,
        rebalancers=operator.rebalancers,
        allow_default_scheduler_name=settings.allow_default_scheduler_name,
        keep_crds=settings.keeps_crds,
        formerly_at_root=True,
    )


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
