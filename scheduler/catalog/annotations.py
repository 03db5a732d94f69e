"""Annotations with which a scheduler says on its Lease what only it knows: the operator and the fleet's gate read them.

Changing a name breaks upgrades: during a rollout, old schedulers are read by a new operator and the other way round.
"""

from typing import Final

ANNOTATION_CACHE_CURRENT: Final = "secondary-scheduler.io/cache-current"
"""`false` while the leader decides by what a cluster that went back to an older state has undone, else `true`."""
ANNOTATION_CACHE_MESSAGE: Final = "secondary-scheduler.io/cache-current-message"
"""When and how the cluster went back, and what has become of it; empty if it never did."""
ANNOTATION_CLUSTER_VERSION: Final = "secondary-scheduler.io/cluster-version"
"""The version of Kubernetes that the leader read, such as `1.36`."""
ANNOTATION_CONFIGURATION_HASH: Final = "secondary-scheduler.io/configuration-hash"
"""Of the configuration that is in effect; also on the pod template of the Deployment, which asks for it."""
ANNOTATION_LOAD_FRESH: Final = "secondary-scheduler.io/load-data-fresh"
"""`true` or `false`; absent where no plugin reads the load."""
ANNOTATION_LOAD_MESSAGE: Final = "secondary-scheduler.io/load-data-message"
ANNOTATION_OVERCOMMITTED: Final = "secondary-scheduler.io/nodes-overcommitted"
"""`true` or `false`."""
ANNOTATION_OVERCOMMITTED_MESSAGE: Final = "secondary-scheduler.io/nodes-overcommitted-message"
ANNOTATION_UNREAD: Final = "secondary-scheduler.io/unread-resources"
"""Resources that decisions go without, each with the reason; absent where there are none."""
ANNOTATION_VERSION: Final = "secondary-scheduler.io/kubernetes-version"
"""The version of kube-scheduler that the profiles behave as."""
ANNOTATION_VERSION_MESSAGE: Final = "secondary-scheduler.io/kubernetes-version-message"
"""Why that is not the cluster's version any more; empty where it is."""
