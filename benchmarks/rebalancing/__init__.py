"""What makes a cluster even again: nothing, our rebalancer, the descheduler, on the same pods, nodes and loads.

The loop is closed: a node's load is what the pods that are bound to it now use. `placement` makes the pods, `movers`
are the processes, `run` runs a pair of them and sees what becomes of the pods, `command` is `python -m benchmarks
rebalancing`.
"""
