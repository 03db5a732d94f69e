"""The operator: it turns a SecondaryScheduler into a running scheduler and tells in the status how that went.

`reconcile` decides and is pure. The rest of this package watches, carries decisions out and reports; it imports
`scheduler.kube`, `scheduler.config` and `scheduler.catalog`, and nothing else of the project.
"""
