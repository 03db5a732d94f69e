"""`make demo`: the whole mission on a local cluster, nothing of it faked, with progress on the screen.

It does what a user would do by hand: brings the cluster up, runs the Pulumi engine on stack `local`, creates a
workload, and shows where the pods went beside where the default scheduler puts the same ones.
"""
