"""`secondary-scheduler rebalance`: which pods to move off overloaded nodes, and where the scheduler puts them.

`facts` takes from the objects of a snapshot what `secondary_scheduler.rebalancing` reads, `running` has the plan made,
`output` writes it.
"""
