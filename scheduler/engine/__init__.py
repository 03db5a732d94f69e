"""The event loop: watch events in; decisions, reservations, bindings, events and status patches out.

May import everything of the scheduler but `app`, and `kube`. Implements the `Handle` through which plugins have
effects. One thread owns cache and queue; nothing here takes a lock.
"""
