"""The local cluster: a real control plane from pinned binaries, simulated and real nodes, Prometheus with credentials.

Membership rule: code that starts, configures or ends processes of the local cluster. It may import
`scheduler.kube` and nothing else of the project; what it runs from the project (scheduler, controller) it
runs as separate processes.
"""
