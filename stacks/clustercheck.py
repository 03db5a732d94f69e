"""What a preview asks the cluster: its version, and whether another installation is in the way of this stack.

Without an answer nothing changes: the preview says what was not checked. See docs/adr/0038-what-a-preview-asks.md.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from components import SCHEDULER_NAME
from components.settings import CheckedConfiguration
from scheduler.catalog import BASE_CLUSTER_ROLE, operand_name
from scheduler.config import ClusterVersions, Problem, incompatibilities
from stacks.clusteraccess import ClusterReader, Late, NotAsked
from stacks.image import operator_of_stack
from stacks.kubeconfig import Context
from stacks.removal import namespaces_in
from stacks.settings import StackSettings

PATIENCE_SECONDS: Final = 5.0
_PART_OF, _INSTANCE = "app.kubernetes.io/part-of", "app.kubernetes.io/instance"
_MAX_NAMED: Final = 3
_MAX_CHARACTERS: Final = 200
"""Of an image: the API server takes nearly any text."""
_CRD: Final = "CustomResourceDefinition"
_PATHS: Final = {
    _CRD: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
}
_OPERATOR: Final = "secondary-scheduler-operator"
_UPSTREAM_OPERATOR: Final = "openshift-secondary-scheduler-operator"
_MINOR = re.compile(r"v?(\d+)\.(\d+)\D?.*")

Json = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class SharedObject:
    """An object that a cluster has once, under the same name for every stack.

    Attributes:
        kind, name: such as `ClusterRole` and `secondary-scheduler:base`.
        of_plugin: it is a CRD that plugins read, and may be anybody's.
    """

    kind: str
    name: str
    of_plugin: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def shared_objects(settings: StackSettings, profile: CheckedConfiguration) -> list[SharedObject]:
    """Return what a new stack with these settings creates and a second one cannot.

    Of the ClusterRoles the one that every installation has: who made it made the others.
    """
    mode, upstream = settings.install_mode, settings.operator.is_upstream(settings.install_mode)
    wanted = []
    if mode == "manifests":
        wanted.append(SharedObject(_CRD, "secondaryschedulers.operator.openshift.io"))
    if settings.objects.priority_class and not upstream:
        wanted.append(SharedObject("PriorityClass", SCHEDULER_NAME))
    if mode != "none":
        wanted.append(SharedObject("ClusterRole", BASE_CLUSTER_ROLE))
    crds = profile.crds if settings.install_plugin_crds else ()
    return [*wanted, *(SharedObject(_CRD, name, of_plugin=True) for name in crds)]


@dataclass
class Answers:
    """What the cluster said; None where it does not have the object.

    Attributes:
        version: of Kubernetes, such as `1.34`; "" if it is not known.
        owners: by namespace of an installation the stack that made it; "" if it does not say.
        namespace: the stack's.
        images: of the operator's and the scheduler's Deployment in it, by name.
        shared: those of the asked `shared_objects` that the cluster has.
        unknown: what could not be read, with the reason.
    """

    version: str = ""
    owners: dict[str, str] = field(default_factory=dict)
    namespace: Json | None = None
    images: dict[str, str] = field(default_factory=dict)
    shared: dict[SharedObject, Json] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)


def ask(
    context: Context | None, namespace: str, shared: Collection[SharedObject] = (), seconds: float = PATIENCE_SECONDS
) -> Answers:
    """Ask the cluster of a context about a namespace and the `shared_objects` of a stack.

    Raises:
        NotAsked: it does not answer within that time, or cannot be asked.
    """
    if context is None:
        raise NotAsked("there is no kubeconfig for it")
    answers: list[Answers | NotAsked] = []

    def read() -> None:
        try:
            answers.append(_read(ClusterReader(context, seconds), namespace, shared))
        except NotAsked as error:
            answers.append(error)

    # A server that answers byte by byte keeps each wait on the socket short: only another thread can end this.
    thread = threading.Thread(target=read, name="cluster-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        raise Late(seconds)
    (answer,) = answers
    if isinstance(answer, NotAsked):
        raise answer
    return answer


def judge(
    answers: Answers, stack: str, settings: StackSettings, profile: CheckedConfiguration, state: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield what keeps the update from working, as errors, and versions that do not go together.

    Args:
        answers: of the stack's cluster.
        stack: its name.
        settings, profile: what it is about to become.
        state: type and outputs of its resources, by URN.
    """
    yield from _versions(answers, settings, profile)
    if settings.adopt_existing or namespaces_in(state):
        return
    existing = answers.namespace
    if existing is not None and settings.install_mode != "none":
        yield _namespace_taken(answers, existing, stack, settings.namespace)
        return
    yield from _shared_problems(answers.shared, stack, settings)
    others = {name: owner for name, owner in answers.owners.items() if name != settings.namespace}
    if others and settings.install_mode != "none" and not any(not shared.of_plugin for shared in answers.shared):
        listed = ", ".join(
            f"{name} (stack {owner or 'unknown'})" for name, owner in sorted(others.items())[:_MAX_NAMED]
        )
        # Whoever may make a namespace may label it so: that must not keep anybody from installing.
        yield Problem(
            ("installMode",),
            f"there is another installation on the cluster, in namespace {listed}: its ClusterRoles and CRDs may be in "
            "the way; use another cluster, or have its operator serve a further scheduler (operator.instances)",
            severity="warning",
        )


def _namespace_taken(answers: Answers, existing: Json, stack: str, namespace: str) -> Problem:
    owner = _owner(existing) if _labels(existing).get(_PART_OF) else ""
    running = ", ".join(f"{name} ({image})" for name, image in sorted(answers.images.items()))
    runs = f", and runs {running}" if running else ""
    origin = f"stack {owner} made it" if owner and owner != stack else "it is not in this stack's state"
    return Problem(
        ("installMode",),
        f"namespace {namespace} exists on the cluster ({origin}){runs}; two stacks cannot share it: use "
        "that stack, or another cluster, or take it over with adoptExisting: true",
    )


def _shared_problems(shared: Mapping[SharedObject, Json], stack: str, settings: StackSettings) -> Iterator[Problem]:
    """What a cluster has once and this one has already: an update would make half of the stack, and fail there."""
    by_owner: dict[str, list[SharedObject]] = {}
    for item, document in sorted(shared.items()):
        if item.of_plugin:
            yield Problem(
                ("installPluginCrds",),
                f"{item} exists on the cluster, and is not in this stack's state: set installPluginCrds: false if "
                "somebody else keeps it, or take it over with adoptExisting: true",
            )
        else:
            by_owner.setdefault(_owner(document), []).append(item)
    for owner, items in by_owner.items():
        origin = f"made by stack {owner}" if owner and owner != stack else "not in this stack's state"
        exist = "exists" if len(items) == 1 else "exist"
        if settings.install_mode == "none":
            key, advice = "optionalObjects", "set optionalObjects.priorityClass: false"
        else:
            key = "installMode"
            advice = (
                "use another cluster, or have the operator that is there serve this scheduler (operator.instances in "
                "its stack; installMode: none and optionalObjects.priorityClass: false in this one)"
            )
        yield Problem(
            (key,),
            f"{', '.join(map(str, items))} {exist} on the cluster ({origin}), and a cluster has one of each: "
            f"{advice}; if an earlier install left them, take them over with adoptExisting: true",
        )


def _versions(answers: Answers, settings: StackSettings, profile: CheckedConfiguration) -> Iterator[Problem]:
    """Images that are not for the cluster as it is. What a stack names is judged without asking."""
    named = settings.cluster.kubernetes_version
    if settings.compatibility_check == "off" or not answers.version:
        return
    severity: Any = "error" if settings.compatibility_check == "fail" else "warning"
    if named is not None:
        minor = _MINOR.fullmatch(named)
        if minor is not None and answers.version != f"{minor[1]}.{minor[2]}":
            message = f"the cluster has Kubernetes {answers.version}, not {named}; change it"
            yield Problem(("cluster", "kubernetesVersion"), message, severity=severity)
    elif settings.cluster.openshift_version is None:
        images = (operator_of_stack(settings), settings.scheduler_image, profile.configuration.flavour)
        # What is wrong on any cluster has been told.
        anywhere = {each.message for each in incompatibilities(ClusterVersions(), *images)}
        for each in incompatibilities(ClusterVersions(answers.version), *images):
            if each.message in anywhere:
                continue
            place = "operatorImage" if each.subject == "operator" else "schedulerImage"
            yield Problem((place,), f"{each.message} (the cluster says its version)", severity=severity)


def _read(reader: ClusterReader, namespace: str, shared: Collection[SharedObject]) -> Answers:
    # Everybody may read the version: without it there is no cluster to ask.
    version = reader.get("/version") or {}
    number = _MINOR.fullmatch(f"{version.get('major', '')}.{version.get('minor', '')}")
    answers = Answers(version=f"{number[1]}.{number[2]}" if number else "")
    try:
        selector = f"?labelSelector={_PART_OF}%3Dsecondary-scheduler"
        listed = reader.get(f"/api/v1/namespaces{selector}") or {}
        for item in listed.get("items") or ():
            name = str((item.get("metadata") or {}).get("name", ""))
            answers.owners[name] = _owner(item)
        existing = reader.get(f"/api/v1/namespaces/{namespace}")
        if existing is not None and not _is_going(existing):
            answers.namespace = existing
    except NotAsked as error:
        answers.unknown.append(f"another installation and the owner of namespace {namespace} ({error})")
    try:
        if answers.namespace is not None:
            for name in (_OPERATOR, _UPSTREAM_OPERATOR, operand_name("cluster")):
                deployment = reader.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
                if deployment is not None:
                    answers.images[name] = _image(deployment)
    except NotAsked as error:
        answers.unknown.append(f"what is installed already ({error})")
    for item in shared:
        try:
            document = reader.get(f"{_PATHS[item.kind]}/{item.name}")
        except NotAsked as error:
            answers.unknown.append(f"whether another stack made {item} ({error})")
        else:
            if document is not None and not _is_going(document):
                answers.shared[item] = document
    return answers


def _is_going(item: Json) -> bool:
    return "deletionTimestamp" in (item.get("metadata") or {})


def _owner(item: Json) -> str:
    """The stack that made an object; "" if it does not say."""
    return str(_labels(item).get(_INSTANCE, ""))


def _labels(item: Json) -> Mapping[str, str]:
    metadata = item.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


def _image(deployment: Json) -> str:
    try:
        image = str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
    except (KeyError, IndexError, TypeError):
        return "image unknown"
    return "".join(character if character.isprintable() else "?" for character in image[:_MAX_CHARACTERS])
