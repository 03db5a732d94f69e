"""Two schedulers on the same nodes: how many pods their kubelets reject, and what avoids it.

`kubelets` plays the kubelets of the nodes, `cell` runs one cell of the table, `command` is `python -m benchmarks
sharing`.
"""
