"""What makes a cluster even again: nothing, our rebalancer, the descheduler, on the same pods, nodes and loads.

The loop is closed: a node's load is what the pods that are bound to it now use. `world` makes the pods, `observer` sees
what becomes of them, `contestants` are the processes, `stage` runs one of them, `command` is `python -m benchmarks
rebalancing`.
"""
