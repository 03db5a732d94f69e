"""What `simulate` reads: any mix of forms, defaults for objects that were never created, and what it says of files and
objects that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from secondary_scheduler.cli.errors import InputError
from secondary_scheduler.simulation.cluster import PodSelection, build_cluster
from secondary_scheduler.simulation.objects import read_recorded
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.yamltext import documents, dump_yaml
from tests.support.simulating import SCHEDULER, Bench, Result, node, pod


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


words = st.one_of(
    st.text(max_size=8), st.sampled_from(["In", "Exists", "NoSchedule", "a\x00b", "kubernetes.io/hostname", "y", "<<"])
)


# Forms ----------------------------------------------------------------------------------------------------------------


def as_list(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def untyped(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}


OBJECTS = (node("n1"), node("n2", unschedulable=True), pod("a", cpu="1"), pod("b", cpu="50"))
FORMS = {
    "documents.yaml": "---\n" + yaml.safe_dump_all(OBJECTS),
    "commented.yaml": "# nothing\n---\n# nothing either\n---\n" + yaml.safe_dump_all(OBJECTS) + "---\n",
    "list.yaml": yaml.safe_dump(as_list("List", *OBJECTS)),
    "list.json": json.dumps(as_list("List", *OBJECTS), indent=2),
    "json-without-suffix": json.dumps(as_list("List", *OBJECTS)),
    "lists-of-the-api.yaml": yaml.safe_dump_all(
        [as_list("NodeList", *map(untyped, OBJECTS[:2])), as_list("PodList", *map(untyped, OBJECTS[2:]))]
    ),
    "one-after-another.json": "\n".join(json.dumps(obj, indent=1) for obj in OBJECTS),
    "with-mark.json": "\ufeff" + json.dumps(as_list("List", *OBJECTS)),
    "flow.yaml": "---\n".join(json.dumps(obj) + "\n" for obj in OBJECTS),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_decisions(bench: Bench, name: str) -> None:
    expected = bench.simulate(*OBJECTS)
    result = bench.text(FORMS[name], name=name)
    assert (result.code, result.err) == (0, "")
    assert result.out == expected.out


def test_several_files_are_one_snapshot(bench: Bench) -> None:
    first = bench.write("nodes.yaml", yaml.safe_dump_all(OBJECTS[:2]))
    second = bench.write("pods.json", json.dumps(as_list("List", *OBJECTS[2:])))
    expected = bench.simulate(*OBJECTS).out
    assert bench.files(first, second).out == expected
    assert bench.files(first, arguments=("--snapshot", second)).out == expected


def test_yaml_is_read_as_kubernetes_reads_it(bench: Bench) -> None:
    text = """
    apiVersion: v1
    kind: Node
    metadata: {name: n1, labels: {version: "1.10", on: "yes", 8: eight}}
    status: {allocatable: {cpu: 0.5, memory: 1e9, pods: 12}}
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: a
      creationTimestamp: 2026-01-01T00:00:00Z
    spec: &spec
      schedulerName: secondary-scheduler
      nodeSelector: {version: "1.10", on: "yes", "8": eight}
      containers: [{name: c, resources: {requests: {cpu: 0.3}}}]
    ---
    apiVersion: v1
    kind: Pod
    metadata: {name: b}
    spec:
      schedulerName: secondary-scheduler
      nodeSelector: {version: 1.10}
      containers: [{name: c}]
    """
    result = bench.text("\n".join(line[4:] for line in text.splitlines()))
    assert result.nodes["default/a"] == "n1"
    # An unquoted 1.10 is a number, which no label value is.
    assert result.nodes["default/b"] is None
    assert "document 3 (line 17), Pod default/b: spec.nodeSelector[...]: expected str, got float" in result.err


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), words),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
        max_leaves=12,
    )
)
def test_yaml_that_is_written_reads_back(value: Any) -> None:
    (document,) = documents(dump_yaml(value), "x")
    assert document.content == value


@pytest.mark.parametrize("text", ["y", "No", "12e3", "1_0", "0x1f", "1:30", "~", "", "2026-01-01", ".5", "null", "'"])
def test_text_that_looks_like_something_else_is_written_as_text(text: str) -> None:
    (document,) = documents(dump_yaml({text: [text, {"a": text}]}), "x")
    assert document.content == {text: [text, {"a": text}]}


def test_anchors_aliases_and_merges_are_expanded() -> None:
    text = b"a: &x {b: 1, c: [2]}\nd: *x\ne: {<<: *x, b: 3}\nf: {<<: [{b: 4}, *x]}\n"
    (document,) = documents(text, "x")
    assert document.content["d"] == {"b": 1, "c": [2]}
    assert document.content["e"] == {"b": 3, "c": [2]}
    assert document.content["f"] == {"b": 4, "c": [2]}


# What does not come from a cluster gets the API server's defaults -----------------------------------------------------


def state_of(bench: Bench, *objects: dict[str, Any]) -> Any:
    """The state and the pods that simulate would decide on."""
    file = bench.write("objects.json", json.dumps(as_list("List", *objects)))
    lines: list[str] = []
    report = InputReport(lines.append)
    cluster = build_cluster(read_recorded([str(file)], report), report, PodSelection([SCHEDULER]))
    assert lines == []
    return cluster


def only_pod(bench: Bench, item: dict[str, Any], *others: dict[str, Any]) -> Any:
    (info,) = state_of(bench, item, *others).pending
    return info


def test_requests_default_to_limits(bench: Bench) -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    info = only_pod(bench, pod("a", containers=[container], initContainers=[{**container, "name": "i"}]))
    assert info.requests == {"cpu": 1000, "memory": 1 << 30}


def test_requests_of_the_whole_pod_default_to_its_containers_then_to_its_limits(bench: Bench) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}}}
    limits = {"limits": {"cpu": "2", "memory": "1Gi"}}
    info = only_pod(bench, pod("a", containers=[container], resources=limits))
    assert info.requests == {"cpu": 100, "memory": 1 << 30}


def test_ports_default_to_tcp_and_to_the_nodes_own_with_host_network(bench: Bench) -> None:
    container = {"name": "c", "ports": [{"containerPort": 80}]}
    (port,) = only_pod(bench, pod("a", containers=[container], hostNetwork=True)).spec.host_ports
    assert (port.protocol, port.port) == ("TCP", 80)
    assert only_pod(bench, pod("a", containers=[container])).spec.host_ports == ()


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    meta = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value, **more}


def test_priority_comes_from_the_class(bench: Bench) -> None:
    high = priority_class("high", 7, preemptionPolicy="Never")
    info = only_pod(bench, pod("a", priorityClassName="high"), high)
    assert (info.priority, info.spec.preemption_policy) == (7, "Never")
    assert only_pod(bench, pod("a"), high).priority == 0
    assert only_pod(bench, pod("a"), high, priority_class("usual", 3, globalDefault=True)).priority == 3
    assert only_pod(bench, pod("a", priorityClassName="system-node-critical")).priority == 2_000_001_000
    assert only_pod(bench, pod("a", priority=5)).priority == 5


def test_a_class_that_is_not_there_parks_the_pod(bench: Bench) -> None:
    result = bench.simulate(node("n1"), pod("a", priorityClassName="absent"), pod("b"))
    assert result.nodes == {"default/b": "n1", "default/a": None}
    assert "spec.priorityClassName: no PriorityClass with name absent was found" in result.err
    assert "absent" in result.decisions["default/a"]["message"]


def test_pods_tolerate_the_first_minutes_of_a_failing_node(bench: Bench) -> None:
    info = only_pod(bench, pod("a", tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]))
    shown = [(toleration.key, toleration.effect, toleration.toleration_seconds) for toleration in info.spec.tolerations]
    assert shown == [
        ("node.kubernetes.io/not-ready", "", None),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]


def test_match_label_keys_become_part_of_the_selector(bench: Bench) -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["revision"],
        "mismatchLabelKeys": ["tenant", "absent"],
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"revision": "2", "tenant": "t"}
    spec = only_pod(bench, pod("a", meta={"labels": labels}, affinity=affinity)).spec
    (term,) = spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    expressions = [
        (expression.key, expression.operator, expression.values) for expression in term.label_selector.match_expressions
    ]
    assert expressions == [("revision", "In", ("2",)), ("tenant", "NotIn", ("t",))]


def test_namespaces_have_the_label_of_their_name_whether_they_are_given_or_not(bench: Bench) -> None:
    given_one = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "given", "labels": {"a": "b"}}}
    objects = state_of(bench, given_one, pod("a", namespace="implied")).state.objects
    assert objects.get("Namespace", "", "given").metadata.labels == {"a": "b", "kubernetes.io/metadata.name": "given"}
    assert objects.get("Namespace", "", "implied").metadata.labels == {"kubernetes.io/metadata.name": "implied"}


def test_a_nodes_allocatable_is_its_capacity_where_it_says_none(bench: Bench) -> None:
    bare = node("n1", cpu="3")
    del bare["status"]["allocatable"]
    assert bench.simulate(bare, pod("a", cpu="3")).nodes == {"default/a": "n1"}


def test_claims_get_the_default_class_unless_they_choose_none(bench: Bench) -> None:
    def storage_class(name: str, default: str) -> dict[str, Any]:
        annotations = {"storageclass.kubernetes.io/is-default-class": default}
        meta = {"name": name, "annotations": annotations}
        return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta, "provisioner": "x"}

    def claim(name: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}

    classes = (storage_class("slow", "false"), storage_class("fast", "true"))
    objects = state_of(bench, *classes, claim("usual"), claim("none", storageClassName="")).state.objects
    assert objects.get("PersistentVolumeClaim", "default", "usual").spec.storage_class_name == "fast"
    assert objects.get("PersistentVolumeClaim", "default", "none").spec.storage_class_name == ""
    assert objects.get("StorageClass", "", "fast").volume_binding_mode == "Immediate"


def test_objects_of_a_cluster_are_taken_as_they_are(bench: Bench) -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "2"}}}
    info = only_pod(bench, pod("a", containers=[container], meta={"uid": "real"}, priorityClassName="absent"))
    assert (info.uid, info.requests, info.spec.tolerations) == ("real", {}, ())


def test_a_name_is_generated_and_uids_depend_on_names_only(bench: Bench) -> None:
    nameless = pod("x")
    nameless["metadata"] = {"generateName": "web-"}
    first = state_of(bench, nameless, nameless).pending
    assert [info.name for info in first] == ["web-00001", "web-00002"]
    assert [info.uid for info in first] == [info.uid for info in state_of(bench, nameless, nameless).pending]


# Files and objects that are wrong -------------------------------------------------------------------------------------


def without(item: dict[str, Any], *path: str) -> dict[str, Any]:
    copy = json.loads(json.dumps(item))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return dict(copy)


GOOD = (node("n1"), pod("good"))
BROKEN = {
    "no kind": (without(node("n2"), "kind"), "document 3 (line {line}): kind: is missing"),
    "no apiVersion": (without(node("n2"), "apiVersion"), "document 3 (line {line}), Node: apiVersion: is missing"),
    "no name": (without(node("n2"), "metadata", "name"), "document 3 (line {line}), Node: metadata.name: is missing"),
    "no metadata": (without(pod("b"), "metadata"), "document 3 (line {line}), Pod: metadata.name: is missing"),
    "not an object": (["a"], "document 3 (line {line}): expected a Kubernetes object, got array"),
    "text for a list": (
        pod("b", containers="many"),
        "document 3 (line {line}), Pod default/b: spec.containers: expected array, got str",
    ),
    "number for text": (
        pod("b", containers=[{"name": "c", "image": 5}]),
        "document 3 (line {line}), Pod default/b: spec.containers[0].image: expected str, got int",
    ),
    "items no list": (as_list("List") | {"items": {}}, "document 3 (line {line}), List: items: expected array"),
    "item in a list": (
        as_list("List", node("n3"), without(node("n2"), "metadata", "name")),
        "document 3, items[1] (line {item}), Node: metadata.name: is missing",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_object_that_is_none_is_named_left_out_and_makes_the_exit_code_4(bench: Bench, case: str) -> None:
    broken, message = BROKEN[case]
    text = yaml.safe_dump_all([*GOOD, broken])
    line = len(yaml.safe_dump_all(GOOD).splitlines()) + 2
    item = line + text.splitlines()[line - 1 :].index("- apiVersion: v1", 3) if case == "item in a list" else 0
    result = bench.text(text)
    assert result.code == 4
    assert f"snapshot.yaml: {message.format(line=line, item=item)}" in result.err
    assert "Traceback" not in result.err
    assert result.nodes["default/good"] is not None


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("s.yaml", "kind: Node\napiVersion: v1\nmetadata: {name: a\n", ":4:1: document 1: not valid YAML: "),
        ("s.yaml", "null\n---\nb: [1, 2\n---\n", ":4:1: document 2: not valid YAML: "),
        ("s.yaml", "a: 1\na: 2\n", ':2:1: document 1: not valid YAML: key "a" is set twice'),
        ("s.yaml", "a: *b\n", ":1:4: document 1: not valid YAML: "),
        ("s.yaml", "a: &a [*a]\n", ":1:8: document 1: not valid YAML: "),
        ("s.yaml", "? [a]\n: 1\n", ":1:3: document 1: not valid YAML: a key must be plain text"),
        ("s.yaml", "a: \x00\n", "document 1: not valid YAML: "),
        ("s.json", '{"apiVersion": "v1",\n "kind": }', ":2:10: document 1: not valid JSON: "),
        ("s.json", '{"apiVersion": "v1",', ":1:21: document 1: not valid JSON: "),
        ("s.json", '{"apiVersion": "v1"', "document 1: not valid JSON: "),
    ],
)
def test_a_file_that_is_no_yaml_or_json_is_one_line_with_the_place(
    bench: Bench, name: str, text: str, problem: str
) -> None:
    result = bench.text(text, name=name)
    assert (result.code, result.out) == (4, "")
    assert result.err.startswith("secondary-scheduler: ")
    assert problem in result.err
    assert result.err.count("\n") == 1


def test_aliases_cannot_grow_a_document_without_limit() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    with pytest.raises(InputError, match="too large when its aliases are expanded"):
        list(documents("\n".join(lines).encode(), "x"))


def test_a_file_that_is_not_there_is_one_line(bench: Bench) -> None:
    result = bench.files(bench.directory / "absent.yaml")
    assert (result.code, result.out) == (4, "")
    assert result.err.endswith("absent.yaml: No such file or directory\n")


def test_kinds_that_no_decision_depends_on_are_counted_in_one_line(bench: Bench) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    theirs = {"apiVersion": "example.com/v1", "kind": "Service", "metadata": {"name": "s"}, "spec": "own"}
    result = bench.simulate(*GOOD, secret, secret, theirs)
    assert result.code == 0
    assert result.err == "not read, as no decision depends on them: 2 Secret, 1 Service\n"


def test_of_two_objects_with_one_name_the_later_counts(bench: Bench) -> None:
    result = bench.simulate(node("n1", cpu="1"), node("n1", cpu="4"), pod("a", cpu="3"))
    assert result.nodes == {"default/a": "n1"}
    assert "document 1, items[1]: Node n1 replaces the one of" in result.err


def test_a_quantity_that_is_none_parks_the_pod_and_names_the_field(bench: Bench) -> None:
    result = bench.simulate(
        node("n1"), node("n2", memory="lots"), pod("a", cpu="1 core"), pod("b"), pod("c", cpu="x", nodeName="n1")
    )
    assert result.code == 0
    assert result.nodes == {"default/b": "n1", "default/a": None}
    lines = result.err.splitlines()
    assert len(lines) == 3
    assert "items[1], Node n2: status.allocatable[memory]: 'lots' is not a Kubernetes quantity" in lines[0]
    assert "items[2], Pod default/a: spec.containers[0].resources.requests[cpu]: '1 core' is not" in lines[1]
    assert "items[4], Pod default/c: spec.containers[0].resources.requests[cpu]: 'x' is not" in lines[2]
    assert "'1 core' is not a Kubernetes quantity" in result.decisions["default/a"]["message"]


def test_a_number_beyond_all_integers_costs_its_object_only(bench: Bench) -> None:
    container = {"name": "c", "resources": {"limits": {"example.com/x": -(2**70)}}}
    result = bench.simulate(*GOOD, pod("sized", containers=[container]), pod("other", unknown=-(2**70)))
    assert result.nodes == {"default/good": "n1", "default/other": "n1", "default/sized": None}
    assert "Pod default/sized: a number in the pod is beyond 64 bits; left out" in result.err


def test_a_flood_of_wrong_objects_is_not_a_flood_of_lines(bench: Bench) -> None:
    result = bench.simulate(*GOOD, *({"kind": "Pod", "apiVersion": "v1"} for _ in range(500)))
    assert result.code == 4
    assert len(result.err.splitlines()) == 51
    assert result.err.splitlines()[-1] == "and 450 more like these"


def test_control_characters_reach_no_terminal(bench: Bench) -> None:
    result = bench.simulate(node("n1"), pod("a\x1b[2J\n", cpu="x"))
    assert "\x1b" not in result.err
    assert len(result.err.splitlines()) == 1


# Hostile objects ------------------------------------------------------------------------------------------------------

quantities = st.one_of(
    st.sampled_from(["1e30", "-1", "0", "", "1Ei", "9223372036854775807", "1e-30", "NaN", "0x10", "١", "1" * 300]),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
)
junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**65), 2**65), words, quantities),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
requirement = st.fixed_dictionaries(
    {}, optional={"key": words, "operator": words, "values": st.lists(words, max_size=2)}
)
selector = st.fixed_dictionaries(
    {}, optional={"matchLabels": st.dictionaries(words, words, max_size=2), "matchExpressions": st.lists(requirement)}
)
term = st.fixed_dictionaries(
    {},
    optional={
        "topologyKey": words,
        "labelSelector": selector,
        "namespaceSelector": selector,
        "matchLabelKeys": st.lists(words),
    },
)
amounts = st.dictionaries(
    st.one_of(st.sampled_from(["cpu", "memory", "example.com/gpu"]), words), quantities, max_size=3
)
container = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "image": words,
        "resources": st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts}),
        "ports": st.lists(st.fixed_dictionaries({}, optional={"hostPort": st.integers(-5, 10**10), "protocol": words})),
        "restartPolicy": words,
    },
)
hostile_spec = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(container, max_size=3),
        "initContainers": st.lists(container, max_size=3),
        "resources": st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts}),
        "overhead": amounts,
        "nodeSelector": st.dictionaries(words, words, max_size=2),
        "tolerations": st.lists(
            st.fixed_dictionaries({}, optional={"key": words, "operator": words, "effect": words, "value": words}),
            max_size=2,
        ),
        "topologySpreadConstraints": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "maxSkew": st.integers(-5, 5),
                    "topologyKey": words,
                    "whenUnsatisfiable": words,
                    "labelSelector": selector,
                    "minDomains": st.integers(-2, 3),
                },
            ),
            max_size=2,
        ),
        "affinity": st.fixed_dictionaries(
            {},
            optional={
                "podAffinity": st.fixed_dictionaries(
                    {},
                    optional={
                        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(term, max_size=2),
                        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
                            st.fixed_dictionaries(
                                {}, optional={"weight": st.integers(-5, 500), "podAffinityTerm": term}
                            ),
                            max_size=2,
                        ),
                    },
                ),
                "nodeAffinity": junk,
            },
        ),
        "priority": st.integers(-(2**40), 2**40),
        "priorityClassName": words,
        "schedulingGates": junk,
        "volumes": st.lists(st.fixed_dictionaries({}, optional={"name": words, "persistentVolumeClaim": junk})),
        "resourceClaims": junk,
    },
)
hostile_pod = st.builds(
    lambda spec, labels, bound: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hostile", "labels": labels},
        "spec": {"schedulerName": SCHEDULER, **spec, **({"nodeName": "n2"} if bound else {})},
    },
    hostile_spec,
    st.dictionaries(words, words, max_size=2),
    st.booleans(),
)
hostile_node = st.builds(
    lambda spec, status, labels: {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "hostile", "labels": labels},
        "spec": spec,
        "status": status,
    },
    st.fixed_dictionaries(
        {}, optional={"taints": st.lists(st.fixed_dictionaries({}, optional={"key": words, "effect": words}))}
    ),
    st.fixed_dictionaries(
        {}, optional={"allocatable": amounts, "capacity": amounts, "images": junk, "addresses": junk}
    ),
    st.dictionaries(words, words, max_size=2),
)
hostile_any = st.builds(
    lambda kind, version, fields: {**fields, "apiVersion": version, "kind": kind},
    st.sampled_from(
        ["Pod", "Node", "List", "Namespace", "PersistentVolumeClaim", "Service", "PriorityClass", "NodeLoad"]
    ),
    st.sampled_from(["v1", "scheduling.k8s.io/v1"]),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "items", "value"]), junk, max_size=4),
)


def simulate_beside(bench: Bench, hostile: list[dict[str, Any]]) -> Result:
    good = pod("good", priority=2_000_000_000, meta={"uid": "good", "creationTimestamp": "2026-01-01T00:00:00Z"})
    # Out of the hostile pods' reach, whatever they request.
    return bench.simulate(
        node("n1"), *hostile, {**good, "spec": {**good["spec"], "nodeSelector": {"kubernetes.io/hostname": "n1"}}}
    )


@given(st.lists(st.one_of(hostile_pod, hostile_node, hostile_any), min_size=1, max_size=3))
def test_hostile_objects_cost_nobody_else_anything(
    tmp_path_factory: pytest.TempPathFactory, hostile: list[dict[str, Any]]
) -> None:
    result = simulate_beside(Bench(tmp_path_factory.mktemp("hostile")), hostile)
    assert result.code in (0, 4)
    assert result.nodes["default/good"] == "n1", result.err


@pytest.mark.parametrize(
    "hostile",
    [
        pod("h", containers=[{"name": f"c{number}", "resources": {"requests": {"cpu": "1"}}} for number in range(500)]),
        pod("h", cpu="1e30"),
        pod("h", cpu="-1"),
        pod("h", meta={"annotations": {"a": "x" * (1 << 20)}}),
        pod("a\x00\x1b[31mb"),
        pod("h", tolerations=[{"operator": "Perhaps", "effect": "NoWhere"}]),
        pod("h", containers=[]),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "h"}, "spec": {"schedulerName": SCHEDULER}},
        node("h", cpu="1e30", memory="-1", pods="99999999999999999999"),
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h"}},
    ],
    ids=str,
)
def test_odd_objects_are_no_mistake(bench: Bench, hostile: dict[str, Any]) -> None:
    result = simulate_beside(bench, [hostile])
    assert (result.code, result.nodes["default/good"]) == (0, "n1")
