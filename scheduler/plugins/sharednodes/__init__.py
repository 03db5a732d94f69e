"""SharedNodes: care on nodes where another scheduler places pods, too. Of this project; upstream has nothing like it.

Neither scheduler sees what the other decided a moment ago, and kubelets reject what does not fit. Two remedies:

- headroom: on nodes that have pods of other schedulers, a share of what is allocatable is left to them.
- after a kubelet has rejected a pod for want of a resource, pods that request it go elsewhere for some seconds.

Both are wishes: where no other node fits, the plugin steps back. So no pod waits on their account, and none is
preempted; autoscalers, which do not know them, cannot be misled. Pods of DaemonSets and static pods do not make a node
shared: every node has some. Counter: `stepped_back/SharedNodes` (attempts), by the core.
"""

from scheduler.plugins.sharednodes.plugin import SharedNodes as SharedNodes
