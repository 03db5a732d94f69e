"""The settings of a stack: their models, how they are read, and how they are checked.

Membership: everything between the engine's configuration and the Args of the components. No resource is created here.
May import `scheduler.catalog` and `scheduler.config`, which are pure, and, in `composition` only, `components`, which
never imports it back.

This door is empty on purpose. There are two entrances: `loading.load_stack` for the Pulumi program, which needs pulumi,
and `checking.check` for the command line, which must run without it; a door that listed both would import pulumi.
"""

__all__: list[str] = []
