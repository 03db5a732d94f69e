"""What `compatibility: upstream` changes in NetworkOverhead: pkg/networkaware/networkoverhead of scheduler-plugins
v0.34.7 as it is."""

import numpy as np

from scheduler.framework import MAX_REASONS, Code, IntArray, NodeView, RowArray, Verdicts


def reject_with_reason_per_node(
    satisfied: IntArray, violated: IntArray, view: NodeView, rows: RowArray
) -> Verdicts | None:
    """Reject the nodes from which more limits are exceeded than kept, each with a reason that names it.

    The pod's message grows with the cluster. There is room for `MAX_REASONS` texts; further nodes get the last one.
    """
    failed = violated > satisfied
    if not failed.any():
        return None
    reasons: list[str] = []
    bits = np.zeros(len(rows), dtype=np.int64)
    for index in np.flatnonzero(failed).tolist():
        if len(reasons) < MAX_REASONS:
            reasons.append(
                f"Node {view.name(int(rows[index]))} does not meet several network requirements from Workload "
                f"dependencies: Satisfied: {satisfied[index]} Violated: {violated[index]}"
            )
        bits[index] = np.int64(1) << (len(reasons) - 1)
    return Verdicts(failed.astype(np.int8) * np.int8(Code.UNSCHEDULABLE), bits, tuple(reasons))
