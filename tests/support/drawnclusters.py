"""Small clusters that hypothesis draws: nodes and pods with what most filters look at."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.simulating import node, pod

zones = st.sampled_from(["a", "b"])
nodes = st.lists(
    st.builds(
        lambda cpu, zone, off, taint: {
            "cpu": cpu,
            "zone": zone,
            "unschedulable": off,
            "taints": [{"key": "t", "effect": "NoSchedule"}] if taint else [],
        },
        st.sampled_from(["1", "2", "4"]),
        zones,
        st.sampled_from([False, False, True]),
        st.sampled_from([False, False, True]),
    ),
    min_size=1,
    max_size=6,
)
pods = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(["0", "300m", "1", "3"]),
            "priority": st.integers(0, 2),
            "zone": st.one_of(st.none(), zones),
            "tolerates": st.booleans(),
            "second": st.integers(0, 3),
            "bound": st.sampled_from([False, False, True]),
            "spread": st.booleans(),
        }
    ),
    max_size=8,
)


def node_object(index: int, drawn: dict[str, Any]) -> dict[str, Any]:
    """A node as drawn."""
    item = node(f"n{index}", cpu=drawn["cpu"], unschedulable=drawn["unschedulable"], taints=drawn["taints"])
    item["metadata"] |= {"uid": f"n{index}", "labels": {"topology.kubernetes.io/zone": drawn["zone"]}}
    return item


def pod_object(index: int, drawn: dict[str, Any], node_count: int) -> dict[str, Any]:
    """A pod as drawn, on one of the nodes or pending."""
    spec: dict[str, Any] = {"priority": drawn["priority"]}
    if drawn["zone"] is not None:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": drawn["zone"]}
    if drawn["tolerates"]:
        spec["tolerations"] = [{"operator": "Exists"}]
    if drawn["bound"]:
        spec["nodeName"] = f"n{index % node_count}"
    if drawn["spread"]:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    meta = {
        "uid": f"p{index}",
        "labels": {"app": "web"},
        "creationTimestamp": f"2026-01-01T00:00:0{drawn['second']}Z",
    }
    return pod(f"p{index}", cpu=drawn["cpu"], meta=meta, **spec)
