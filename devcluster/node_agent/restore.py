"""What a restarted agent makes of the container statuses its predecessor left in the API. Pure."""

import copy

from devcluster.node_agent.objects import Obj, timestamp
from devcluster.node_agent.status import ContainerReport

LOST_EXIT_CODE = 137


def restore(container: Obj, statuses: list[Obj] | None, now: float) -> ContainerReport:
    """The report to go on from; a container that ran when the predecessor ended counts as killed, as by kubelet."""
    report = ContainerReport(container)
    old = next((status for status in statuses or [] if status["name"] == container["name"]), None)
    if old is None:
        return report
    report.restarts = old.get("restartCount", 0)
    report.container_id = old.get("containerID", "")
    state = old.get("state") or {}
    if "terminated" in state:
        report.state = copy.deepcopy(state)
    elif "running" in state:
        report.state = {
            "terminated": {
                "exitCode": LOST_EXIT_CODE,
                "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the node agent started",
                "startedAt": state["running"].get("startedAt"),
                "finishedAt": timestamp(now),
                "containerID": report.container_id,
            }
        }
    else:
        report.last_state = copy.deepcopy(old.get("lastState") or {})
    return report
