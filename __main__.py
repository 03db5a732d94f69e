"""The Pulumi program: settings in, components composed, outputs out."""

from __future__ import annotations

import pulumi

import components
from stacks.loading import load_stack

stack = load_stack()
settings, found, existing = stack.settings, stack.credentials, stack.credentials.existing_secret
name = components.SCHEDULER_NAME

pulumi.runtime.register_stack_transformation(components.common_labels(stack.name))
cluster = components.ClusterProvider(
    "cluster",
    cluster_identifier=settings.cluster.cluster_identifier,
    context=settings.cluster.context,
    kubeconfig=stack.kubeconfig,
)
here = pulumi.ResourceOptions(providers=[cluster])

crd = components.SecondarySchedulerCrd("crd", components.SecondarySchedulerCrdArgs(settings.protect), here)
crds: list[pulumi.Resource] = [crd]
if settings.install_plugin_crds and stack.profile.crds:
    plugin_crds_args = components.PluginCrdsArgs(stack.profile.crds, settings.protect)
    crds.append(components.PluginCrds("plugin-crds", plugin_crds_args, here))
namespace = components.Namespace("namespace", components.NamespaceArgs(protect=settings.protect), here).name
operator_args = components.OperatorInstallArgs(
    namespace,
    settings.operator_image,
    needs=crds,
    instances=[(instance.namespace, instance.name) for instance in settings.operator.instances],
    status_of=settings.operator.keeps_status_of(stack.profile.crds),
)
operator = components.OperatorInstall("operator", operator_args, here)
credentials_args = components.MetricCredentialsArgs(
    namespace,
    service_account=name,
    secret_name=f"{name}-metrics",
    token=found.token,
    certificate_authority=found.certificate_authority,
    existing_secret=components.SecretKeyReference(existing.name, existing.key) if existing else None,
    cluster_role=found.cluster_role,
)
credentials = components.MetricCredentials("metric-credentials", credentials_args, here)
configuration_args = components.SchedulerConfigurationArgs(namespace, f"{name}-config", stack.profile.content)
configuration = components.SchedulerConfiguration("configuration", configuration_args, here)
scheduler_args = components.SecondarySchedulerArgs(
    namespace,
    settings.scheduler_image,
    configuration.config_map_name,
    configuration.configuration_hash,
    settings.log_level,
    credentials.reference,
    needs=[*crds, operator, configuration, credentials],
    protect=settings.protect,
    allow_default_scheduler_name=settings.allow_default_scheduler_name,
)
scheduler = components.SecondaryScheduler("scheduler", scheduler_args, here)

deployment = {"name": scheduler.name, "namespace": scheduler.namespace, "image": settings.scheduler_image}
pulumi.export("scheduler", {**deployment, "readyReplicas": scheduler.ready_replicas})
pulumi.export("profile", stack.profile.summary)
pulumi.export("profiles", stack.profile.summaries)
