"""The local cluster: a real control plane from pinned binaries, simulated and real nodes, Prometheus with credentials.

A distribution of its own (`secondary-scheduler-devcluster`): neither the wheel nor the image holds it. Membership rule:
code that starts, configures or ends processes of the local cluster. It imports `scheduler.kube` and nothing else of the
project, but for `command`, which also imports the door of `secondary_scheduler.cli`; scheduler and operator run as
processes.
"""
