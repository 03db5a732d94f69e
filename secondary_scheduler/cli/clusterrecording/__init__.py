"""A cluster over time, in one file: a snapshot, then what happened to its objects and their load.

`snapshot --record` takes a recording, and `plan` replays it. Only `taking` and `watching` talk to a cluster, and they
never write to it.
"""
