"""The scheduler's configuration that was applied last, and what the stack would change of it, in words.

It is read from the stack's own state by a function of the engine's. Unlike a StackReference that leaves no trace in
the state, and unlike an output it is no change itself. No cluster is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pulumi

from scheduler.config import (
    CUSTOM,
    OURS,
    Configuration,
    ConfigurationError,
    configuration_hash,
    differences,
    flavour_of,
    load_configuration,
)

_READ_STATE = "pulumi:pulumi:readStackResourceOutputs"
_CONFIGURATION_KEY = "config.yaml"
_KIND = "kind: KubeSchedulerConfiguration"


def log_changes(new: Configuration) -> None:
    """Log what changes of the scheduler's profiles, and nothing where nothing does or nothing was applied yet."""
    lines = changes(_state(), new)
    if lines:
        pulumi.log.info("\n".join(["the scheduler's behaviour changes:", *(f"  {line}" for line in lines)]))


def changes(state: Mapping[str, Any], new: Configuration) -> list[str]:
    """Return what changes against a stack's state, in words.

    Args:
        state: outputs of every resource, by URN, as the engine hands them over.
        new: what the stack is about to apply.
    """
    text = next(iter(_configurations(state)), None)
    if text is None:
        return []
    try:
        if configuration_hash(text) == new.hash:
            return []
    except ConfigurationError:
        return ["the previously applied configuration cannot be read"]
    old = _load(text, _images(state), new)
    return differences(old, new) if old is not None else ["the previously applied configuration cannot be read"]


def _state() -> Mapping[str, Any]:
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    try:
        answer: Any = pulumi.runtime.invoke(_READ_STATE, {"stackName": name}).value
    except Exception as error:  # what was applied last is a help to the reader; no deployment fails for want of it
        pulumi.log.debug(f"the stack's own state cannot be read: {error}")
        return {}
    outputs = answer.get("outputs") if isinstance(answer, Mapping) else None
    return outputs if isinstance(outputs, Mapping) else {}


def _outputs(state: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    for resource in state.values():
        if isinstance(resource, Mapping) and str(resource.get("type", "")).endswith(f":{kind}"):
            outputs = resource.get("outputs")
            if isinstance(outputs, Mapping):
                yield outputs


def _configurations(state: Mapping[str, Any]) -> list[str]:
    """The configurations in the state; first the one that is in use: after an update that failed there are two."""
    used = set(_config_maps_in_use(state))
    ranked = []
    for outputs in _outputs(state, "ConfigMap"):
        text = (outputs.get("data") or {}).get(_CONFIGURATION_KEY)
        if isinstance(text, str) and _KIND in text:
            ranked.append(((outputs.get("metadata") or {}).get("name") not in used, text))
    return [text for _, text in sorted(ranked)]


def _config_maps_in_use(state: Mapping[str, Any]) -> Iterator[str]:
    """Names of the ConfigMaps that the SecondaryScheduler, or a Deployment that the program owns, names."""
    for outputs in _outputs(state, "SecondaryScheduler"):
        yield str((outputs.get("spec") or {}).get("schedulerConfig", ""))
    for outputs in _outputs(state, "Deployment"):
        pod = ((outputs.get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from (str((volume.get("configMap") or {}).get("name", "")) for volume in pod.get("volumes") or ())


def _images(state: Mapping[str, Any]) -> Iterator[str]:
    """The scheduler's images in the state: of the SecondaryScheduler, or of a Deployment that the program owns."""
    for outputs in _outputs(state, "SecondaryScheduler"):
        yield str((outputs.get("spec") or {}).get("schedulerImage", ""))
    for outputs in _outputs(state, "Deployment"):
        pod = ((outputs.get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from (str(container.get("image", "")) for container in pod.get("containers") or ())


def _load(text: str, images: Iterator[str], new: Configuration) -> Configuration | None:
    """Load what was accepted once, though perhaps for another image than the one that it is to run on now."""
    for flavour in (*(flavour_of(image) for image in images), new.flavour, OURS, CUSTOM):
        try:
            return load_configuration(
                text,
                source="the previously applied configuration",
                flavour=flavour,
                allow_token_in_config_map=True,
                allow_default_scheduler_name=True,
                load_given=True,
            )
        except ConfigurationError:
            continue
    return None
