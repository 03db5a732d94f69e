"""A stand-in for `pulumi-resource-kubernetes` 4.30.0, for machines where the official plugin cannot be had.

Modules: `values` (property values), `objects` (reading an object, and what of it is in the stack's state), `inputs`
(what a program may give), `diff`, `dynamic_client` (the cluster), `writes`, `readiness`, `wait_for` and `waiting`,
`settings` (of the provider), `operations` (the verbs) and `servicer` (gRPC, the only untyped edge).
"""

VERSION = "4.30.0"
