"""Everything that speaks Kubernetes.

`primitives` (standard library only) and `model` (typed objects) do no I/O; `client` and `lease` are the only code of
the scheduler and the controller that opens a connection to the API server. Nothing here imports the rest of the
project.
"""
