"""`secondary-scheduler render`: manifests out of the Pulumi program.

Membership: `stack` reads a stack's file, `recorder` is the child process in which the program runs against a recording
engine (the only module here that imports pulumi), `manifests` turns what it registered into objects and files,
`kustomize` into a kustomization, `directory` writes them. `images` knows where manifests name images.
"""
