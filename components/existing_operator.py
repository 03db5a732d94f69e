"""An operator that was installed elsewhere."""

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
    """Creates nothing and checks nothing: if the operator is missing, the scheduler does not become ready."""

    namespace: pulumi.Output[str]
    version: pulumi.Output[str]

    def __init__(self, name: str, args: ExistingOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:ExistingOperator", name, None, opts)
        self.namespace = pulumi.Output.from_input(args.namespace)
        self.version = pulumi.Output.from_input("")
        self.register_outputs({"namespace": self.namespace, "version": self.version})
