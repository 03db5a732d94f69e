"""Label selectors as settings: what Kubernetes accepts, and whether two of them can select the same object."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from scheduler.config import SettingsModel
from scheduler.kube.primitives import SelectorError, label_selector


class LabelRequirement(SettingsModel):
    """A condition on one label, as in Kubernetes."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = Field((), max_length=64)


class LabelSelectorSettings(SettingsModel):
    """A LabelSelector of Kubernetes; all of its conditions must hold."""

    match_labels: dict[str, str] = Field(default_factory=dict, max_length=32)
    match_expressions: tuple[LabelRequirement, ...] = Field((), max_length=32)

    @model_validator(mode="after")
    def _is_a_selector(self) -> Self:
        try:
            compiled = label_selector(self)
        except SelectorError as error:
            raise ValueError(str(error)) from None
        if compiled.everything:
            raise ValueError("selects everything; name a label, or leave it out")
        return self

    def manifest(self) -> dict[str, Any]:
        """Return the selector as Kubernetes objects write it."""
        content: dict[str, Any] = {}
        if self.match_labels:
            content["matchLabels"] = dict(self.match_labels)
        if self.match_expressions:
            content["matchExpressions"] = [
                {"key": each.key, "operator": each.operator, **({"values": list(each.values)} if each.values else {})}
                for each in self.match_expressions
            ]
        return content

    def requirements(self) -> list[LabelRequirement]:
        """Return all conditions in the form of expressions."""
        labels = [LabelRequirement(key=key, operator="In", values=(value,)) for key, value in self.match_labels.items()]
        return [*labels, *self.match_expressions]

    def excludes(self, other: LabelSelectorSettings) -> bool:
        """Tell whether no object can be selected by both, whatever its labels are."""
        return any(
            _contradict(mine, theirs)
            for mine in self.requirements()
            for theirs in other.requirements()
            if mine.key == theirs.key
        )


def _label_value(value: str) -> str:
    try:
        label_selector(LabelSelectorSettings.model_construct(match_labels={"x": value}, match_expressions=()))
    except SelectorError:
        raise ValueError("is not a label value (at most 63 letters, digits, '-', '_', '.')") from None
    return value


LabelValue = Annotated[str, Field(min_length=1), AfterValidator(_label_value)]


def _contradict(first: LabelRequirement, second: LabelRequirement) -> bool:
    """Tell whether no value of their common key, nor its absence, meets both conditions."""
    pair = {first.operator: first, second.operator: second}
    if first.operator == second.operator:
        return first.operator == "In" and not set(first.values) & set(second.values)
    if "DoesNotExist" in pair:
        return "In" in pair or "Exists" in pair
    return "In" in pair and "NotIn" in pair and set(pair["In"].values) <= set(pair["NotIn"].values)
