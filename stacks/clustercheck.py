"""What a preview asks the cluster: its version, and whether another installation is in the way of this stack.

Without an answer nothing changes: the preview says what was not checked. See docs/adr/0038-what-a-preview-asks.md.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from components.settings import CheckedConfiguration
from scheduler.catalog import operand_name
from scheduler.config import ClusterVersions, Problem, incompatibilities
from stacks.clusteraccess import ClusterReader, Late, NotAsked
from stacks.image import operator_of_stack
from stacks.kubeconfig import Context
from stacks.removal import holds
from stacks.settings import StackSettings

PATIENCE_SECONDS: Final = 5.0
_PART_OF, _INSTANCE = "app.kubernetes.io/part-of", "app.kubernetes.io/instance"
_MOST_NAMED: Final = 3
_MOST_CHARACTERS: Final = 200
"""Of an image: the API server takes nearly any text."""
_CRD: Final = "secondaryschedulers.operator.openshift.io"
_OPERATOR: Final = "secondary-scheduler-operator"
_UPSTREAM_OPERATOR: Final = "openshift-secondary-scheduler-operator"
_MINOR = re.compile(r"v?(\d+)\.(\d+)\D?.*")

Json = Mapping[str, Any]


@dataclass
class Answers:
    """What the cluster said; None where it does not have the object.

    Attributes:
        version: of Kubernetes, such as `1.34`; "" if it is not known.
        owners: by namespace of an installation the stack that made it; "" if it does not say.
        namespace: the stack's.
        images: of the operator's and the scheduler's Deployment in it, by name.
        crd: of SecondaryScheduler.
        unknown: what could not be read, with the reason.
    """

    version: str = ""
    owners: dict[str, str] = field(default_factory=dict)
    namespace: Json | None = None
    images: dict[str, str] = field(default_factory=dict)
    crd: Json | None = None
    unknown: list[str] = field(default_factory=list)


def ask(context: Context | None, namespace: str, seconds: float = PATIENCE_SECONDS) -> Answers:
    """Ask the cluster of a context.

    Raises:
        NotAsked: it does not answer within that time, or cannot be asked.
    """
    if context is None:
        raise NotAsked("there is no kubeconfig for it")
    answers: list[Answers | NotAsked] = []

    def read() -> None:
        try:
            answers.append(_read(ClusterReader(context, seconds), namespace))
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
    if settings.install_mode == "none" or settings.adopt_existing or holds(state, "Namespace", "Namespace"):
        return
    others = {name: owner for name, owner in answers.owners.items() if name != settings.namespace}
    existing = answers.namespace
    if existing is not None:
        owner = _labels(existing).get(_INSTANCE, "") if _labels(existing).get(_PART_OF) else ""
        running = ", ".join(f"{name} ({image})" for name, image in sorted(answers.images.items()))
        runs = f", and runs {running}" if running else ""
        origin = f"stack {owner} made it" if owner and owner != stack else "it is not in this stack's state"
        yield Problem(
            ("installMode",),
            f"namespace {settings.namespace} exists on the cluster ({origin}){runs}; two stacks cannot share it: use "
            "that stack, or another cluster, or take it over with adoptExisting: true",
        )
    elif others:
        listed = ", ".join(
            f"{name} (stack {owner or 'unknown'})" for name, owner in sorted(others.items())[:_MOST_NAMED]
        )
        # Whoever may make a namespace may label it so: that must not keep anybody from installing.
        yield Problem(
            ("installMode",),
            f"there is another installation on the cluster, in namespace {listed}: its ClusterRoles and CRDs may be in "
            "the way; use another cluster, or have its operator serve a further scheduler (operator.instances)",
            severity="warning",
        )
    elif answers.crd is not None and settings.install_mode == "manifests":
        yield Problem(
            ("installMode",),
            f"CustomResourceDefinition {_CRD} exists on the cluster: another operator serves it, or an earlier install "
            "kept it; take it over with adoptExisting: true, or use installMode none with the operator that is there",
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


def _read(reader: ClusterReader, namespace: str) -> Answers:
    # Everybody may read the version: without it there is no cluster to ask.
    version = reader.get("/version") or {}
    number = _MINOR.fullmatch(f"{version.get('major', '')}.{version.get('minor', '')}")
    answers = Answers(version=f"{number[1]}.{number[2]}" if number else "")
    try:
        selector = f"?labelSelector={_PART_OF}%3Dsecondary-scheduler"
        listed = reader.get(f"/api/v1/namespaces{selector}") or {}
        for item in listed.get("items") or ():
            name = str((item.get("metadata") or {}).get("name", ""))
            answers.owners[name] = str(_labels(item).get(_INSTANCE, ""))
        existing = reader.get(f"/api/v1/namespaces/{namespace}")
        if existing is not None and "deletionTimestamp" not in (existing.get("metadata") or {}):
            answers.namespace = existing
    except NotAsked as error:
        answers.unknown.append(f"another installation and the owner of namespace {namespace} ({error})")
    try:
        if answers.namespace is not None:
            for name in (_OPERATOR, _UPSTREAM_OPERATOR, operand_name("cluster")):
                deployment = reader.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
                if deployment is not None:
                    answers.images[name] = _image(deployment)
        answers.crd = reader.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{_CRD}")
    except NotAsked as error:
        answers.unknown.append(f"what is installed already ({error})")
    return answers


def _labels(item: Json) -> Mapping[str, str]:
    metadata = item.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


def _image(deployment: Json) -> str:
    try:
        image = str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
    except (KeyError, IndexError, TypeError):
        return "image unknown"
    return "".join(character if character.isprintable() else "?" for character in image[:_MOST_CHARACTERS])
