"""What is kept of an object in the stack's state."""

from dataclasses import dataclass

from devcluster.pulumi_stand_ins.kubernetes_provider.values import (
    Object,
    contains_secret,
    reveal,
    secret,
    with_secrets_of,
)

_INPUTS = "__inputs"
_INITIAL_API_VERSION = "__initialApiVersion"
_FIELD_MANAGER = "__fieldManager"


@dataclass(frozen=True)
class Checkpoint:
    """The live object, the inputs it was made from (with their secret marks), and who owns its fields."""

    live: Object
    inputs: Object
    field_manager: str
    initial_api_version: str = ""

    def outputs(self) -> Object:
        """The form written to state: secretness of inputs carried over to the same places of the live object.

        A Secret with any secret input is secret in all of `data`, since the server turns stringData into data.
        """
        marked: Object = with_secrets_of(self.live, self.inputs)
        content = (self.inputs.get("data"), self.inputs.get("stringData"))
        if self.live.get("kind") == "Secret" and "data" in marked and any(contains_secret(part) for part in content):
            marked["data"] = secret(reveal(marked["data"]))
        return {
            **marked,
            _INPUTS: self.inputs,
            _INITIAL_API_VERSION: self.initial_api_version or self.live.get("apiVersion", ""),
            _FIELD_MANAGER: self.field_manager,
        }

    @classmethod
    def read(cls, outputs: Object, inputs: Object | None = None) -> "Checkpoint":
        """Read the form of `outputs()`; the live object loses its secret marks, the inputs keep theirs.

        `inputs`, where the engine sends them separately, win over those inside the outputs.
        """
        plain = reveal(outputs)
        inside = outputs.get(_INPUTS) or {}
        inside = inside if isinstance(inside, dict) else {}
        live = {key: value for key, value in plain.items() if not key.startswith("__")}
        kept = inputs if inputs else inside
        return cls(live, kept, str(plain.get(_FIELD_MANAGER) or ""), str(plain.get(_INITIAL_API_VERSION) or ""))
