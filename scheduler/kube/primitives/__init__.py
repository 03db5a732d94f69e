"""Quantities, selectors and times exactly as Kubernetes reads them.

What belongs here: pure functions on API values that configuration, scheduler and operator share. Standard library only,
no I/O, no import of the rest of the project.
"""
