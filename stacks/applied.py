"""How the stack changes the previously applied scheduler configuration, as lines for the preview.

The engine's function `readStackResourceOutputs` reads the stack's own state. A StackReference would be stored in that
state, and an output would itself show up as a change. The cluster is not contacted.
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


def log_changes(state: Mapping[str, Any], new: Configuration) -> None:
    """Log what changes in the scheduler's profiles; log nothing if there is no change or no previous configuration."""
    lines = changes(state, new)
    if lines:
        pulumi.log.info("\n".join(["the scheduler's behaviour changes:", *(f"  {line}" for line in lines)]))


def previous(state: Mapping[str, Any], new: Configuration) -> Configuration | None:
    """Return the configuration that a stack's state holds; None if it holds none, or one that cannot be read."""
    text = next(iter(_configurations(state)), None)
    return None if text is None else _load(text, _images(state), new)


def changes(state: Mapping[str, Any], new: Configuration) -> list[str]:
    """Return one line per change against a stack's state; empty if nothing changes.

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


def own_state() -> Mapping[str, Any]:
    """Return the outputs of every resource in the running stack's state, by URN; empty if it cannot be read."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    try:
        answer: Any = pulumi.runtime.invoke(_READ_STATE, {"stackName": name}).value
    except Exception as error:  # the comparisons only protect and help: an update must not fail for lack of them
        pulumi.log.warn(f"the stack's own state cannot be read, so nothing says what this update removes: {error}")
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
    """The configurations in the state, the one in use first: after a failed update there are two."""
    used = set(_config_maps_in_use(state))
    ranked = []
    for outputs in _outputs(state, "ConfigMap"):
        text = (outputs.get("data") or {}).get(_CONFIGURATION_KEY)
        if isinstance(text, str) and _KIND in text:
            ranked.append(((outputs.get("metadata") or {}).get("name") not in used, text))
    return [text for _, text in sorted(ranked)]


def _config_maps_in_use(state: Mapping[str, Any]) -> Iterator[str]:
    """Names of the ConfigMaps that a SecondaryScheduler, or a Deployment of the stack, refers to."""
    for outputs in _outputs(state, "SecondaryScheduler"):
        yield str((outputs.get("spec") or {}).get("schedulerConfig", ""))
    for outputs in _outputs(state, "Deployment"):
        pod = ((outputs.get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from (str((volume.get("configMap") or {}).get("name", "")) for volume in pod.get("volumes") or ())


def _images(state: Mapping[str, Any]) -> Iterator[str]:
    """The scheduler images in the state: of a SecondaryScheduler, or of a Deployment of the stack."""
    for outputs in _outputs(state, "SecondaryScheduler"):
        yield str((outputs.get("spec") or {}).get("schedulerImage", ""))
    for outputs in _outputs(state, "Deployment"):
        pod = ((outputs.get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from (str(container.get("image", "")) for container in pod.get("containers") or ())


def _load(text: str, images: Iterator[str], new: Configuration) -> Configuration | None:
    """Load a configuration that was accepted before, perhaps for another image than the new one."""
    for flavour in (*(flavour_of(image) for image in images), new.flavour, OURS, CUSTOM):
        try:
            return load_configuration(
                text,
                source="the previously applied configuration",
                flavour=flavour,
                allow_token_in_config_map=True,
                allow_default_scheduler_name=True,
                external_load=True,
            )
        except ConfigurationError:
            continue
    return None
