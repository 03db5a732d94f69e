"""`secondary-scheduler opt-in`: whose pods get the scheduler's name as they are created.

`status` counts pods and templates, `probing` asks the API server what it would do with a pod, `verdict` says why,
`rendering` writes all of it for people. The policies are read by `secondary_scheduler.cli.optinpolicies`.
"""
