"""`secondary-scheduler fleet`: one operation on many stacks of the project, over Pulumi's Automation API.

Only `engine` and `pulumi_command` import pulumi, which takes longer than all the rest; `command` imports what it needs
when it is called. Everything else here works without pulumi and is tested without an engine.
"""
