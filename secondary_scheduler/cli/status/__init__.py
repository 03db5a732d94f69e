"""`secondary-scheduler status`: how the installations on a cluster are.

`reading` reads the API server, `asking` the running schedulers; `instances` makes the document of both, `health` judges
it, `rendering` writes it for people. Nothing is changed in the cluster.
"""
