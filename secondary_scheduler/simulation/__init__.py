"""The scheduling core on a recorded cluster: objects read from files, defaulted, and decided one after the other.

The commands `simulate`, `plan`, `explain` and `ui` share it. It reads files and is given what it may
print with; it never talks to a cluster.
"""
