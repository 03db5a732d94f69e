"""Names and options of the components that another component consists of."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True)
class Parts:
    """The parts of a component: named after it, and its children.

    Attributes:
        whole: the component.
        prefix: its name.
        formerly_at_root: the parts were registered without it before, at the root of the program and with names
            without a prefix; the engine then keeps them and theirs.
    """

    whole: pulumi.Resource
    prefix: str
    formerly_at_root: bool = False

    def name(self, part: str) -> str:
        """Return the name of a part's resource."""
        return f"{self.prefix}-{part}"

    def options(self, part: str) -> pulumi.ResourceOptions:
        """Return the options of a part's resource."""
        at_root = pulumi.Alias(name=part, parent=pulumi.ROOT_STACK_RESOURCE)
        return pulumi.ResourceOptions(parent=self.whole, aliases=[at_root] if self.formerly_at_root else None)
