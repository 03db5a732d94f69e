"""Manifests out of the Pulumi program: `secondary-scheduler render`.

Membership: `stack` reads a stack's file, `recorder` is the child process in which the program runs against a recording
engine (the only module here that imports pulumi), `manifests` turns what it registered into files.
"""
