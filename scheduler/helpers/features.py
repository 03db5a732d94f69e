"""Features of the kubelet that a pod needs to be started (component-helpers v0.36.3, nodedeclaredfeatures/features)."""

from scheduler.kube.model import PodSpec

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
NO_FEATURES: frozenset[str] = frozenset()


def needed_features(spec: PodSpec) -> frozenset[str]:
    """Return the names of the features; a shared empty set for nearly every pod.

    Those that only an update of a running pod needs are left out, as in upstream's InferForPodScheduling.
    """
    needed = NO_FEATURES
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
                needed |= {RESTART_ALL_CONTAINERS}
    if spec.host_network and spec.host_users is False:
        needed |= {USER_NAMESPACES_HOST_NETWORK}
    return needed
