"""From a stack's settings to the arguments of the components."""

from __future__ import annotations

import pulumi

import components
from scheduler import operand
from stacks.loading import Stack


def installation_args(stack: Stack, crds: list[pulumi.Resource]) -> components.InstallationArgs:
    """Return how the stack's operator is installed, if it has one; `crds` are the CRDs that plugins need."""
    settings, operator = stack.settings, stack.settings.operator
    mode, catalog = settings.install_mode, settings.operator.catalog
    source, source_namespace = operator.usual_source
    return components.InstallationArgs(
        mode,
        settings.scheduler_image,
        plugins=sorted({name for profile in stack.profile.configuration.profiles for name in profile.enabled}),
        olm=components.OlmSource(
            operator.package_in(mode),
            operator.channel,
            source,
            source_namespace,
            starting_csv=operator.starting_csv,
            approval=operator.approval,
            catalog_image=catalog.image if catalog else None,
            catalog_address=catalog.address if catalog else None,
            ready_seconds=operator.ready_seconds,
        ),
        flavour=settings.flavour or "",
        extra_roles=stack.profile.extra_roles,
        operator_image=settings.operator_image,
        upstream=operator.is_upstream(mode),
        openshift=settings.openshift,
        instances=[(instance.namespace, instance.name) for instance in operator.instances],
        status_of=operator.keeps_status_of(stack.profile.crds),
        secrets=[stack.credentials.existing_secret.name] if stack.credentials.existing_secret else [],
        admission_policies=settings.optional_objects.admission_policies,
        allowed_images=settings.allowed_images,
        network_policy=settings.optional_objects.network_policy,
        egress_ports=settings.egress_ports,
        crds=crds,
        protect=settings.protect,
        keep_crd=stack.keeps_crds,
    )


def scheduler_args(
    stack: Stack, configuration: components.SchedulerConfiguration, credentials: components.MetricCredentials
) -> components.SchedulerArgs:
    """Return the description of the stack's scheduler."""
    settings, objects = stack.settings, stack.settings.optional_objects
    return components.SchedulerArgs(
        settings.scheduler_image,
        configuration.config_map_name,
        configuration.configuration_hash,
        list(stack.profile.configuration.scheduler_names),
        settings.log_level,
        credentials.reference,
        credential_rules=stack.profile.credential_rules,
        metric_audience=stack.credentials.audience,
        flavour=settings.flavour or "",
        extra_plugins={plugin.name: [str(point) for point in plugin.points] for plugin in settings.extra_plugins},
        replicas=settings.replicas,
        allow_default_scheduler_name=settings.allow_default_scheduler_name,
        allow_token_in_config_map=stack.profile.holds_token,
        priority_class=objects.priority_class,
        network_policy=objects.network_policy,
        flow_schemas=objects.flow_schemas,
        service_monitor=objects.service_monitor,
        prometheus_rule=settings.openshift if objects.prometheus_rule is None else objects.prometheus_rule,
        egress_ports=settings.egress_ports,
        source_ports=operand.source_ports(stack.profile.configuration),
        resources=settings.resources.model_dump(exclude_defaults=True) if settings.resources else None,
        protect=settings.protect,
        ready_seconds=settings.ready_seconds,
        needs=[configuration, credentials],
    )
