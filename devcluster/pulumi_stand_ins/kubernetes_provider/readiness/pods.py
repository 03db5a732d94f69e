"""What keeps pods from running, in words."""

from collections.abc import Iterable, Iterator

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import conditions, metadata_of
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

_HARMLESS = frozenset({"ContainerCreating", "PodInitializing"})
_MESSAGE_LIMIT = 500  # a termination message may be 4 KiB


def problems(pods: Iterable[Object]) -> tuple[str, ...]:
    """One line per container that cannot start or keeps ending, and per pod that cannot be scheduled; no line twice."""
    return tuple(dict.fromkeys(line for pod in pods for line in _pod_problems(pod)))


def _pod_problems(pod: Object) -> Iterator[str]:
    name = metadata_of(pod).get("name", "?")
    status = pod.get("status") or {}
    scheduled = conditions(pod).get("PodScheduled", {})
    if scheduled.get("status") == "False":
        yield f"Pod {name}: {scheduled.get('reason', 'not scheduled')}: {scheduled.get('message', '')}".rstrip(": ")
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or ():
            line = container_problem(container)
            if line:
                yield f"Pod {name}: {line}"
    if status.get("phase") == "Failed" and status.get("message"):
        yield f"Pod {name}: {status.get('reason', 'Failed')}: {status['message']}"


def container_problem(container: Object) -> str | None:
    """Why a container does not run, with how it ended last; None while nothing is wrong."""
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    parts = []
    if waiting and waiting.get("reason") not in _HARMLESS:
        parts.append(": ".join(str(waiting[key]) for key in ("reason", "message") if waiting.get(key)))
    if ended and (parts or ended.get("exitCode") != 0):
        text = f"last exit code {ended.get('exitCode')}"
        ending = ": ".join(str(ended[key]).strip() for key in ("reason", "message") if ended.get(key))
        parts.append(f"{text} ({ending[:_MESSAGE_LIMIT]})" if ending else text)
    return f'container "{container.get("name")}": {"; ".join(parts)}' if parts else None
