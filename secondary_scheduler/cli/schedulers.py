"""Which running scheduler is asked, and its answers: for `explain` and `ui`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from secondary_scheduler.cli.errors import CommandError, printable

if TYPE_CHECKING:
    from scheduler.answers import DecisionList, Document
    from scheduler.kube.client import ClientConfig
    from secondary_scheduler.clusterstatus.forwarding import Answer
    from secondary_scheduler.clusterstatus.unknownpods import AskedSchedulers

PORT = 10259
D = TypeVar("D", bound="Document")
_TIMEOUT = 15.0
_CHANGE_SECONDS = 5.0
"""For which a Lease that nobody holds is looked at again: at a rollout the old leader releases it, and the new one sees
that after up to a retry period (2 s)."""
_LOOK_SECONDS = 0.5
_NOT_SERVED = "404: Not Found"
"""What the scheduler's server says to a path that it does not know."""


class UnknownPodError(CommandError):
    """No scheduler that was asked knows a pod.

    Attributes:
        schedulers: those that do not know it.
    """

    def __init__(self, namespace: str, name: str, schedulers: AskedSchedulers) -> None:
        self.schedulers = schedulers
        super().__init__(printable(f"{namespace}/{name}: unknown to {', '.join(schedulers.pods)}"))


@dataclass(frozen=True, slots=True)
class Schedulers:
    """Pods of schedulers that can be asked.

    Attributes:
        namespace: theirs.
        pods: their names, at least one.
        chosen: whether the user named the pod.
        asker: whose token is shown to them; None for the user's own.
    """

    config: ClientConfig
    namespace: str
    pods: tuple[str, ...]
    port: int
    chosen: bool
    asker: ClientConfig | None = None

    def answers(self, path: str, query: Mapping[str, str], right: str, form: type[D]) -> Iterator[D]:
        """Yield the answers.

        A scheduler that cannot be asked ends nothing as long as another answers.

        Args:
            path: on their HTTPS port.
            query: of the request.
            right: what the user needs, in words, such as `get pods in namespace shop`.
            form: of the answers.

        Raises:
            CommandError: none of them answers; the text is about the first.
        """
        problems: list[CommandError] = []
        for pod in self.pods:
            try:
                answer = self._ask(pod, path, query, right, form)
            except CommandError as error:
                problems.append(error)
            else:
                yield answer
        if len(problems) == len(self.pods):
            raise problems[0]

    def about_pod(self, namespace: str, name: str, why_not: str | None = None) -> DecisionList:
        """Return the answer of the scheduler that knows a pod.

        Args:
            namespace, name: of the pod.
            why_not: a node that its plugins shall be asked about, too.

        Raises:
            UnknownPodError: none of them knows it.
            CommandError: none answers.
        """
        from scheduler.answers import DecisionList
        from secondary_scheduler.clusterstatus.unknownpods import AskedSchedulers

        path = f"/debug/decisions/namespaces/{quote(namespace, safe='')}"
        query = {"pod": name} if why_not is None else {"pod": name, "node": why_not}
        names: dict[str, None] = {}
        for answer in self.answers(path, query, f"get pods in namespace {namespace}", DecisionList):
            if answer.items or answer.waiting or (answer.why_not and answer.why_not.verdict):
                return answer
            names |= dict.fromkeys(answer.scheduler_names)
        raise UnknownPodError(namespace, name, AskedSchedulers(self.pods, tuple(names)))

    def only(self) -> Schedulers:
        """Return these, if they are one.

        Raises:
            CommandError: they are several.
        """
        if len(self.pods) > 1:
            pods = ", ".join(self.pods)
            raise CommandError(
                f"several schedulers lead in namespace {self.namespace}: name one with --scheduler-pod ({pods})"
            )
        return self

    def _ask(self, pod: str, path: str, query: Mapping[str, str], right: str, form: type[D]) -> D:
        from secondary_scheduler.clusterstatus.forwarding import NoSuchPodError, get, read_answer

        place = f"{self.namespace}/{pod}"
        try:
            answer = get(self.config, self.namespace, pod, self.port, path, query, asker=self.asker)
        except NoSuchPodError as error:
            if self.chosen:
                raise
            raise CommandError(
                f"the leader {place} is gone, and another one takes over when its Lease ends: ask again in some seconds"
            ) from error
        if answer.status != 200:
            raise CommandError(
                f"{place} answers {answer.refusal(f'to {right}', _absent(answer))}{self._advice(answer)}"
            )
        return read_answer(answer.body, form, f"{place} port {self.port}")

    def _advice(self, answer: Answer) -> str:
        if answer.status != 503 or "does not lead" not in answer.reason:
            return ""
        if self.chosen:
            return "; leave --scheduler-pod out to ask the one that leads"
        return "; the leader is changing: ask again"


def _absent(answer: Answer) -> str:
    """Why a path is not served; "" where something that it names does not exist."""
    return (
        "it does not serve this: it is older, or runs with --decision-history=0" if _NOT_SERVED in answer.reason else ""
    )


def find_schedulers(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    pod: str | None,
    port: int,
    *,
    command: str = "explain",
    account: str | None = None,
) -> Schedulers:
    """Return the schedulers that lead in a namespace, or the one that the user names; the API server hears from which
    `command` the question is. They are asked as the ServiceAccount `account`, if one is given. While the leader changes
    it waits for the next one, for some seconds.

    Raises:
        CommandError: there is none, or the cluster does not say.
    """
    from scheduler.catalog import OPERATOR_NAMESPACE
    from scheduler.kube.client import ConfigError, KubeError
    from secondary_scheduler.cli.connecting import load_connection
    from secondary_scheduler.cli.refusals import refusal
    from secondary_scheduler.cli.serviceaccounts import asking_as

    try:
        config = load_connection(kubeconfig, context)
        place = namespace or OPERATOR_NAMESPACE
        pods = (pod,) if pod else tuple(_leaders(config, place, command))
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error
    except KubeError as error:
        raise refusal(error, config.server) from error
    return Schedulers(config, place, pods, port, pod is not None, asking_as(config, account))


def _leaders(config: ClientConfig, namespace: str, command: str) -> list[str]:
    from scheduler.kube.client import SyncConnection
    from secondary_scheduler.clusterstatus.installations import place_of
    from secondary_scheduler.clusterstatus.installed import holders_of, installed_elsewhere, schedulers_leases

    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent=f"secondary-scheduler/{command}")
    deadline = time.monotonic() + _CHANGE_SECONDS
    try:
        leases = schedulers_leases(connection, namespace)
        while leases and not (pods := holders_of(leases)) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            leases = schedulers_leases(connection, namespace)
        elsewhere = "" if leases else installed_elsewhere(connection)
    finally:
        connection.close()
    if leases and not pods:
        names = ", ".join(place_of(lease)[1] for lease in leases)
        raise CommandError(
            printable(
                f"no scheduler leads in namespace {namespace}: nobody holds the Lease {names}; the leader is changing "
                "(ask again), or no replica is ready (secondary-scheduler status says why)"
            )
        )
    if not leases:
        raise CommandError(
            printable(
                f"no scheduler leads in namespace {namespace}; name its namespace with --scheduler-namespace, or its "
                f"pod with --scheduler-pod where it runs without leader election{elsewhere}"
            )
        )
    return pods
