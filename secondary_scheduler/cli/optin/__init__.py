"""`secondary-scheduler opt-in`: whose pods get the scheduler's name as they are created.

`policies` reads the admission policies, `status` counts pods and templates, `probing` asks the API server what it would
do with a pod, `verdict` says why, `rendering` writes all of it for people.
"""
