"""The Pulumi program: settings in, components composed, outputs out."""

from __future__ import annotations

import pulumi

import components
from stacks import composition
from stacks.loading import load_stack

stack = load_stack()
settings, metric, existing = stack.settings, stack.credentials, stack.credentials.existing_secret
name = components.SCHEDULER_NAME

pulumi.runtime.register_stack_transformation(components.common_labels(stack.name))
cluster = components.ClusterProvider(
    "cluster",
    cluster_identifier=stack.cluster_identifier,
    context=settings.cluster.context,
    kubeconfig=stack.kubeconfig,
    adopts=settings.adopt_existing,
    forces=settings.adopt_existing,
)
if settings.adopt_existing:
    pulumi.log.warn("adoptExisting: existing objects are adopted; remove this key from the stack file after the update")
on_cluster = pulumi.ResourceOptions(providers=[cluster])

crds: list[pulumi.Resource] = []
if settings.install_plugin_crds and stack.profile.crds:
    plugin_crds_args = components.PluginCrdsArgs(stack.profile.crds, stack.keeps_crds, settings.protect)
    crds.append(components.PluginCrds("plugin-crds", plugin_crds_args, on_cluster))
installation = components.install(composition.installation_args(stack, crds), cluster, on_cluster)
credentials_args = components.MetricCredentialsArgs(
    installation.namespace,
    service_account=name,
    secret_name=f"{name}-metrics",
    token=metric.token,
    certificate_authority=metric.certificate_authority,
    existing_secret=components.SecretKeyReference(existing.name, existing.key) if existing else None,
    cluster_role=metric.cluster_role,
)
credentials = components.MetricCredentials("metric-credentials", credentials_args, on_cluster)
configuration_args = components.SchedulerConfigurationArgs(
    installation.namespace, f"{name}-config", stack.profile.content, stack.profile.holds_token
)
configuration = components.SchedulerConfiguration("configuration", configuration_args, on_cluster)
scheduler_args = composition.scheduler_args(stack, configuration, credentials)
scheduler = components.run_scheduler(installation, scheduler_args, on_cluster)

deployment = {"name": scheduler.name, "namespace": scheduler.namespace, "image": settings.scheduler_image}
names = list(stack.profile.configuration.scheduler_names)
pulumi.export("scheduler", {**deployment, "readyReplicas": scheduler.ready_replicas, "schedulerNames": names})
if settings.install_mode in ("olm", "catalog"):
    pulumi.export("installation", {"mode": settings.install_mode, "operator": installation.operator})
for output, value in stack.profile.outputs.items():
    pulumi.export(output, value)
pulumi.export("health", scheduler.health)
if settings.node_partition is not None:
    pulumi.export("nodePartition", settings.node_partition.instructions())
