"""`secondary-scheduler explain`: why a pod is where it is, or nowhere, as the running scheduler remembers it.

`rendering` writes the scheduler's answer for people.
"""
