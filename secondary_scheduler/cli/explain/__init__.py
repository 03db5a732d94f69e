"""`secondary-scheduler explain`: why a pod is where it is, or nowhere, as the running scheduler remembers it.

`leaders` finds the scheduler, `forwarding` asks it, `rendering` writes its answer for people.
"""
