"""The event loop: watch events in; decisions, reservations, bindings, Events and status patches out.

What belongs here: whatever has an effect or a clock on the way of a pod. It implements the `Handle` through which
plugins have effects, and assembles plugins and state (`assembly`, also for `simulate` and the benchmarks). May import
everything of the scheduler but `daemon` and what is above it. One thread owns cache and queue; nothing here takes a
lock.
"""
