"""`make demo`: the whole product on a local cluster, with nothing faked and progress on the screen.

It does what a user would do by hand: starts the cluster, runs Pulumi on the stack `local`, creates a workload, and
compares where its pods go with where the default scheduler puts the same pods.
"""
