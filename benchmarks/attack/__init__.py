"""What one tenant's objects cost the others' pods: attacks on the scheduler from one namespace.

`attacks` is the table of them, `objects` makes what they consist of, `trial` lets one contestant bear one attack,
`figures` judges it, `command` is `python -m benchmarks attack`.
"""
