"""Cases made by hand for the traps of kube-scheduler 1.34: each a situation that a port easily gets wrong."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.case import Case, Json

_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _node(name: str, zone: str = "", cpu: str = "4", taints: Iterable[Json] = (), **labels: str) -> Json:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {_HOST: name, **({_ZONE: zone} if zone else {}), **labels}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pod(name: str, cpu: str = "100m", node: str = "", labels: Json | None = None, **spec: object) -> Json:
    container: Json = {"name": "main", "image": "app-a"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **spec},
        **({"status": {"startTime": "2026-01-01T00:00:00Z"}} if node else {}),
    }


def _in(namespace: str, pod: Json) -> Json:
    return pod | {"metadata": pod["metadata"] | {"namespace": namespace}}


def _ending(pod: Json) -> Json:
    return pod | {"metadata": pod["metadata"] | {"deletionTimestamp": "now"}}


def _term(key: str, selector: Json | None, **more: object) -> Json:
    return {"topologyKey": key, **({} if selector is None else {"labelSelector": selector}), **more}


def _spread(key: str, action: str, selector: Json | None, **more: object) -> Json:
    term = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action}
    return term | ({} if selector is None else {"labelSelector": selector}) | more


def _own_node(*names: str, operator: str = "In") -> Json:
    fields = [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}


_WEB = {"matchLabels": {"app": "web"}}
_NODES = (_node("a", "z1"), _node("b", "z1"), _node("c", "z2"))
_NOT_TEAM_A = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}

_DIRECTED: dict[str, tuple[Iterable[Json], Iterable[Json]]] = {
    "no nodes at all": ((), [_pod("p")]),
    "a single feasible node is taken without scoring": (
        [*_NODES[:2], _node("d", taints=[{"key": "k", "effect": "NoSchedule"}])],
        [_pod("p", affinity=_own_node("a"))],
    ),
    "no taints at all still score 100": (_NODES, [_pod("p")]),
    "a toleration without key needs Exists to tolerate all": (
        [_node("a", taints=[{"key": "k", "effect": "NoExecute", "value": "v"}]), _node("b")],
        [_pod("p", tolerations=[{"operator": "Exists"}])],
    ),
    "counts are sorted as text, 10 before 2": (
        [
            *(_node(f"full{number}", cpu="50m") for number in range(10)),
            *(_node(f"t{number}", taints=[{"key": "k", "effect": "NoSchedule"}]) for number in range(2)),
        ],
        [_pod("p")],
    ),
    "terms by node name that contradict each other": (_NODES, [_pod("p", affinity=_own_node("a", "b"))]),
    "a named node that does not exist": (_NODES, [_pod("p", affinity=_own_node("nowhere"))]),
    "nodes outside the named ones count under the plugin's reason": (
        _NODES,
        [_pod("p", cpu="9", affinity=_own_node("a"))],
    ),
    "not that node by name": (_NODES, [_pod("p", affinity=_own_node("a", operator="NotIn"))]),
    "no requests: 100m and 200Mi for scoring, pods only for fitting": (
        [_node("a", cpu="0"), _node("b"), _node("c", cpu="1")],
        [_pod("p", cpu=""), _pod("q", cpu="0")],
    ),
    "asking for more than any node has is beyond preemption": (
        [*_NODES, _pod("low", cpu="4", node="a")],
        [_pod("p", cpu="5", priorityClassName="high")],
    ),
    "preemption: one low victim suffices": (
        [_node("a"), _pod("low", "3", "a", priorityClassName="low"), _pod("mid", "1", "a", priorityClassName="middle")],
        [_pod("p", "2", priorityClassName="high")],
    ),
    "preemption: a polite pod takes nobody's place": (
        [_node("a"), _pod("low", "3", "a", priorityClassName="low")],
        [_pod("p", "2", priorityClassName="polite")],
    ),
    "preemption: equals are no victims": (
        [_node("a"), _pod("same", "3", "a", priorityClassName="high")],
        [_pod("p", "2", priorityClassName="high")],
    ),
    "preemption: the node with the lesser victim": (
        [
            _node("a"),
            _node("b"),
            _pod("x", "3", "a", priorityClassName="middle"),
            _pod("y", "3", "b", priorityClassName="low"),
        ],
        [_pod("p", "2", priorityClassName="high")],
    ),
    "preemption: taints are not helped by it": (
        [_node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), _pod("x", "3", "a", priorityClassName="low")],
        [_pod("p", "2", priorityClassName="high")],
    ),
    "affinity: a pod that matches its own terms may be the first": (
        _NODES,
        [
            _pod("p", labels={"app": "web"}, affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB)]}}),
            _pod("q", labels={"app": "db"}, affinity={"podAffinity": {_REQUIRED: [_term(_HOST, _WEB)]}}),
        ],
    ),
    "affinity: nobody to be near to": (
        _NODES,
        [_pod("p", labels={"app": "db"}, affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB)]}})],
    ),
    "affinity: the first of its kind still needs the key on the node": (
        [_node("a"), _node("b")],
        [_pod("p", labels={"app": "web"}, affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB)]}})],
    ),
    "affinity: a selector of namespaces made of NotIn matches every namespace": (
        [*_NODES, _in("team-a", _pod("x", node="a", labels={"app": "web"}))],
        [
            _pod(
                "p",
                affinity={"podAntiAffinity": {_REQUIRED: [_term(_ZONE, _WEB, namespaceSelector=_NOT_TEAM_A)]}},
            )
        ],
    ),
    "affinity: an empty selector of namespaces is all of them": (
        [*_NODES, _in("team-a", _pod("x", node="c", labels={"app": "web"}))],
        [_pod("p", affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB, namespaceSelector={})]}})],
    ),
    "affinity: an existing pod's terms know the namespace's labels": (
        [
            *_NODES,
            _in(
                "team-b",
                _pod(
                    "x",
                    node="a",
                    affinity={"podAntiAffinity": {_REQUIRED: [_term(_ZONE, _WEB, namespaceSelector=_NOT_TEAM_A)]}},
                ),
            ),
        ],
        [_in("team-a", _pod("p", labels={"app": "web"})), _pod("q", labels={"app": "web"})],
    ),
    "affinity: required terms of existing pods weigh in the score": (
        [
            *_NODES,
            _pod("x", node="c", labels={"app": "db"}, affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB)]}}),
        ],
        [_pod("p", labels={"app": "web"})],
    ),
    "affinity: preferences below zero are scaled from the least": (
        [*_NODES, _pod("x", node="a", labels={"app": "web"}), _pod("y", node="c", labels={"app": "db"})],
        [
            _pod(
                "p",
                affinity={"podAntiAffinity": {_PREFERRED: [{"weight": 7, "podAffinityTerm": _term(_HOST, _WEB)}]}},
            )
        ],
    ),
    "spread: an empty selector counts nobody": (
        [*_NODES, _pod("x", node="a"), _pod("y", node="a")],
        [_pod("p", topologySpreadConstraints=[_spread(_HOST, "DoNotSchedule", {})])],
    ),
    "spread: no selector matches nothing": (
        [*_NODES, _pod("x", node="a")],
        [_pod("p", topologySpreadConstraints=[_spread(_HOST, "ScheduleAnyway", None)])],
    ),
    "spread: too few domains make the least 0": (
        [*_NODES, *(_pod(f"x{node}", node=node, labels={"app": "web"}) for node in "abc")],
        [
            _pod(
                "p",
                labels={"app": "web"},
                topologySpreadConstraints=[_spread(_ZONE, "DoNotSchedule", _WEB, minDomains=3)],
            )
        ],
    ),
    "spread: tainted nodes are domains unless taints are honoured": (
        [
            _node("a", "z1", taints=[{"key": "k", "effect": "NoSchedule"}]),
            _node("b", "z2"),
            _pod("x", node="b", labels={"app": "web"}),
        ],
        [
            _pod(
                f"p-{policy.lower()}",
                labels={"app": "web"},
                topologySpreadConstraints=[_spread(_ZONE, "DoNotSchedule", _WEB, nodeTaintsPolicy=policy)],
            )
            for policy in ("Ignore", "Honor")
        ],
    ),
    "spread by default: nodes without a zone are a domain of their own": (
        [
            _node("a", "z1"),
            _node("b", "z1"),
            _node("c"),
            _node("d"),
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            },
            _pod("x", node="a", labels={"app": "web"}),
            _pod("y", node="c", labels={"app": "web"}),
        ],
        [_pod("p", labels={"app": "web"}), _pod("q", labels={"app": "web"})],
    ),
    "spread: pods of other namespaces and ending ones do not count": (
        [
            *_NODES,
            _in("team-a", _pod("x", node="a", labels={"app": "web"})),
            _ending(_pod("y", node="b", labels={"app": "web"})),
            _pod("z", node="c", labels={"app": "web"}),
        ],
        [
            _pod(
                "p",
                labels={"app": "web"},
                topologySpreadConstraints=[_spread(_HOST, "DoNotSchedule", _WEB)],
            )
        ],
    ),
    "volumes: a missing claim ends all questions": (
        _NODES,
        [_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}])],
    ),
    "ports: the same port on another address": (
        [
            _node("a"),
            _node("b"),
            _in(
                "default",
                _pod("x", node="a")
                | {
                    "spec": {
                        "nodeName": "a",
                        "containers": [
                            {
                                "name": "c",
                                "image": "i",
                                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}],
                            }
                        ],
                    }
                },
            ),
        ],
        [
            _pod(f"p{number}")
            | {
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "i",
                            "ports": [
                                {"containerPort": 80, "hostPort": 80, **({"hostIP": address} if address else {})}
                            ],
                        }
                    ]
                }
            }
            for number, address in enumerate(["127.0.0.2", "", "127.0.0.1"])
        ],
    ),
}

DIRECTED: dict[str, Case] = {
    name: Case(0, (), "default", tuple(objects), tuple(pods)) for name, (objects, pods) in _DIRECTED.items()
}
