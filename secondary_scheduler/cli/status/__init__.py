"""`secondary-scheduler status`: how the installations on a cluster are.

`clusterstatus` says how they are; `rendering` writes it for people. Nothing is changed in the cluster.
"""
