"""What an extender makes of the candidates of a preemption (ProcessPreemption and callExtenders of kube-scheduler
1.34)."""

from collections.abc import Mapping

from scheduler.framework import Extender, ExtenderError, NodeView, PodInfo, PreemptAnswer
from scheduler.preemption.victims import Candidate, VictimRules

NO_CANDIDATE = "no candidate node for preemption"


def candidates_left(
    extender: Extender,
    pod: PodInfo,
    view: NodeView,
    offered: Mapping[str, Candidate],
    answer: PreemptAnswer,
    rules: VictimRules,
) -> dict[str, Candidate]:
    """Return the candidates that an extender leaves, with the victims that it names, by node.

    It may take victims away and add others of the node, which must be of lower priority than the preemptor: upstream
    would evict any pod that an extender names. A node that was offered without victims may be left so, for the next
    extender to name some.

    Raises:
        ExtenderError: it failed, or what it says cannot be done; not where its failures are ignored.
    """
    try:
        if answer.error:
            raise ExtenderError(answer.error)
        named = {
            node: _candidate(extender, pod, view, offered[node], uids, violations, rules)
            for node, (uids, violations) in answer.victims.items()
        }
    except ExtenderError:
        if extender.ignorable:
            return dict(offered)
        raise
    left = {}
    for node, candidate in named.items():
        if candidate.victims or not offered[node].victims:
            left[node] = candidate
        elif not extender.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{node}"')
    return left


def _candidate(
    extender: Extender,
    pod: PodInfo,
    view: NodeView,
    offered: Candidate,
    uids: tuple[str, ...],
    violations: int,
    rules: VictimRules,
) -> Candidate:
    row = view.row(offered.node)
    on_node = {other.uid: other for other in view.pods_on(row)} if row >= 0 else {}
    expected = {victim.uid for victim in offered.victims}
    victims = []
    for uid in uids:
        victim = on_node.get(uid)
        if victim is None:
            # Upstream's words; it prints a pointer to the pod's identifier.
            raise ExtenderError(
                f"extender: {extender.url} claims to preempt pod (UID: &{{{uid}}}) on node: {offered.node}, but the "
                "pod is not found on that node"
            )
        if uid not in expected and victim.priority >= pod.priority:
            raise ExtenderError(
                f"extender: {extender.url} claims to preempt pod {victim.key} on node: {offered.node}, which is not "
                "of lower priority"
            )
        victims.append(victim)
    return Candidate(offered.node, tuple(rules.by_importance(victims, view.now)), violations)
