"""The operator that somebody else installed."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True)
class ExistingOperatorArgs:
    """Attributes:
    namespace: where the operator runs.
    """

    namespace: pulumi.Input[str]


class ExistingOperator(pulumi.ComponentResource):
    """Nothing of the operator is made or looked at: that it is there shows when the scheduler comes up."""

    namespace: pulumi.Output[str]
    version: pulumi.Output[str]

    def __init__(self, name: str, args: ExistingOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:ExistingOperator", name, None, opts)
        self.namespace = pulumi.Output.from_input(args.namespace)
        self.version = pulumi.Output.from_input("")
        self.register_outputs({"namespace": self.namespace, "version": self.version})
