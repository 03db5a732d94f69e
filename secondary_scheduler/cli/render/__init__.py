"""`secondary-scheduler render`: manifests out of the Pulumi program.

Membership: `stack` reads a stack's file, `recorder` is the child process in which the program runs against a recording
engine (the only module here that imports pulumi), `manifests` turns what it registered into objects and files,
`kustomize` into a kustomization, `chart` into a Helm chart (`chartvalues`: its values, `templates`: the text of its
templates), `directory` writes them. `images` knows where manifests name images.
"""
