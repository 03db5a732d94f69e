"""Images and names, which are known at once or are what another resource's Output will be."""

from __future__ import annotations

import pulumi

from scheduler.config import Flavour, flavour_of


def joined(*parts: pulumi.Input[str]) -> pulumi.Input[str]:
    """Return the texts in one, at once where all are known. An f-string would make a text of the Output itself."""
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else pulumi.Output.concat(*parts)


def known_image(image: pulumi.Input[str], flavour: object, source: str) -> str:
    """Return an image as it can be judged before the update: "" for an Output.

    Args:
        image: the scheduler's image.
        flavour: the name of its flavour, if one is set.
        source: the component, for the message.

    Raises:
        pulumi.RunError: the image is an Output without a flavour, which decides which objects there are.
    """
    if isinstance(image, str):
        return image
    if not flavour:
        raise pulumi.RunError(
            f"{source}: image: is known during the update only, so flavour must say what it is, such as ours or custom"
        )
    return ""


def flavour_of_input(image: pulumi.Input[str], flavour: str, source: str) -> Flavour:
    """Return an image's flavour, by its name where none is set.

    Raises:
        pulumi.RunError: as `known_image`.
    """
    return flavour_of(known_image(image, flavour, source), flavour)
