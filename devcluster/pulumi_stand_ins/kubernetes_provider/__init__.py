"""A stand-in for `pulumi-resource-kubernetes` 4.30.0, for machines where the official plugin cannot be had.

Modules: `values` (property values), `inputs` (what a program may give), `diff` and `replacement`, `dynamic_client`
(the cluster), `readiness` and `waiting`, `checkpoint` (what is kept in the stack's state), `operations` (the verbs) and
`servicer` (gRPC, the only untyped edge).
"""

VERSION = "4.30.0"
