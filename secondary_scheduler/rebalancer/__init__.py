"""The rebalancer: a process that carries out what `secondary_scheduler.rebalancing` plans.

Belongs here: what reads the cluster for it, asks the API server for evictions, watches how they end, and tells of it.
What may be moved is decided in `secondary_scheduler.rebalancing` only. `secondary-scheduler rebalance run` starts it,
and the image has it as a command; so it imports nothing of the command line.
"""
