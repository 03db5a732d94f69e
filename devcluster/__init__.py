"""A local cluster that needs no containers: a real control plane, simulated and real nodes, Prometheus with a token.

A distribution of its own (`secondary-scheduler-devcluster`): neither the wheel nor the image contains it. What belongs
here: code that configures, starts or stops processes of the local cluster. It imports `scheduler.kube` and nothing else
of the project, except that `command` also imports the door of `secondary_scheduler.cli`. Scheduler and operator run as
processes of their own.
"""
