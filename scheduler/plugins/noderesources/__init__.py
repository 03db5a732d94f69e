"""NodeResourcesFit and NodeResourcesBalancedAllocation."""

from scheduler.plugins.noderesources.balanced import NodeResourcesBalancedAllocation as NodeResourcesBalancedAllocation
from scheduler.plugins.noderesources.fit import NodeResourcesFit as NodeResourcesFit
