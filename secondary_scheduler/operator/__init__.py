"""The operator: it turns a SecondaryScheduler into a running scheduler and reports on it in the status.

`reconcile` decides and is pure: no I/O, no clock, no logging. `groups` keeps the status of PodGroups and
ElasticQuotas by rules of its own. The rest of this package watches, executes decisions and reports. It imports
`scheduler.kube`, `scheduler.catalog`, `scheduler.config` and `scheduler.operand`, never the scheduler's runtime, the
command line or the local cluster. `app` wires it; nothing is public here, as nobody but the program `secondary-
scheduler-operator` uses it.
"""
