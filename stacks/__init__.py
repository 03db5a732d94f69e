"""What a stack's configuration may say, and how it is read and refused.

Membership: the pydantic models of the settings, their reading and their checking; no resource is made here. May import
`scheduler.catalog` and `scheduler.config`, which are pure, and `components` never imports it back.
"""
