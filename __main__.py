"""The Pulumi program: settings in, one component, outputs out."""

from __future__ import annotations

import pulumi

import components
from stacks import composition
from stacks.loading import load_stack

stack = load_stack()
settings = stack.settings

forced = components.ForceConflicts(settings.force_conflicts)
pulumi.runtime.register_stack_transformation(components.common_labels(stack.name))
pulumi.runtime.register_stack_transformation(forced)
cluster = composition.cluster_provider(stack)
if settings.adopt_existing:
    pulumi.log.warn("adoptExisting: existing objects are adopted; remove this key from the stack file after the update")
if settings.force_conflicts:
    pulumi.log.warn("forceConflicts: fields of named objects are taken over; remove this key after the update")
installation = components.SchedulerInstallation(
    components.SCHEDULER_NAME,
    composition.installation_args(stack, cluster),
    pulumi.ResourceOptions(providers=[cluster]),
)

deployment = {"name": installation.name, "namespace": installation.namespace, "image": settings.scheduler_image}
names = list(stack.profile.configuration.scheduler_names)
pulumi.export("scheduler", {**deployment, "readyReplicas": installation.ready_replicas, "schedulerNames": names})
if settings.install_mode in ("olm", "catalog"):
    pulumi.export("installation", {"mode": settings.install_mode, "operator": installation.operator})
for output, value in stack.profile.outputs.items():
    pulumi.export(output, value)
pulumi.export("health", installation.health)
if settings.node_partition is not None:
    pulumi.export("nodePartition", settings.node_partition.instructions())
if unknown := forced.unknown():
    raise pulumi.RunError(
        f"forceConflicts: this stack has no {', '.join(unknown)}; it has {', '.join(forced.objects())}"
    )
