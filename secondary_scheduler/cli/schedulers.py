"""The running schedulers that a command asks, and their answers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from secondary_scheduler.cli.errors import CommandError, printable, refusal

if TYPE_CHECKING:
    from scheduler.answers import DecisionList, Document
    from scheduler.kube.client import ClientConfig
    from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer, SchedulerPod
    from secondary_scheduler.clusterstatus.unknownpods import AskedSchedulers

PORT = 10259
D = TypeVar("D", bound="Document")
_TIMEOUT = 15.0
_CHANGE_SECONDS = 5.0
"""For which a Lease that nobody holds is looked at again: at a rollout the old leader releases it, and the new one sees
that after up to a retry period (2 s)."""
_LOOK_SECONDS = 0.5
_NOT_SERVED = re.compile(r"(404:? (page )?not found)?", re.IGNORECASE)
"""What a server says to a path that it does not know, and not to a pod or a node that it does not know."""


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
    """Schedulers that can be asked.

    Attributes:
        pods: at least one, all of one namespace.
        chosen: whether the user named the pod.
    """

    pods: tuple[SchedulerPod, ...]
    chosen: bool

    @property
    def config(self) -> ClientConfig:
        """Of the user who asks."""
        return self.pods[0].config

    def answers(self, path: str, query: Mapping[str, str], right: str, form: type[D]) -> list[D | CommandError]:
        """Return each one's answer, or why it has none; all are asked at the same time.

        Args:
            path: on their HTTPS port.
            query: of the request.
            right: what the user needs, in words, such as `get pods in namespace shop`.
            form: of the answers.
        """

        async def ask_each() -> list[D | CommandError]:
            return list(await asyncio.gather(*(self._ask(pod, path, query, right, form) for pod in self.pods)))

        return asyncio.run(ask_each())

    def answer(self, path: str, query: Mapping[str, str], right: str, form: type[D]) -> D:
        """Return the answer of the only scheduler; arguments as of `answers`.

        Raises:
            CommandError: they are several, or it has none.
        """
        (answer,) = self.only().answers(path, query, right, form)
        if isinstance(answer, CommandError):
            raise answer
        return answer

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
        answers = self.answers(path, query, f"get pods in namespace {namespace}", DecisionList)
        lists = [answer for answer in answers if not isinstance(answer, CommandError)]
        for answer in lists:
            if answer.items or answer.waiting or (answer.why_not and answer.why_not.verdict):
                return answer
        if not lists:
            raise next(answer for answer in answers if isinstance(answer, CommandError))
        names = dict.fromkeys(name for answer in lists for name in answer.scheduler_names)
        raise UnknownPodError(namespace, name, AskedSchedulers(tuple(pod.name for pod in self.pods), tuple(names)))

    def only(self) -> Schedulers:
        """Return these, if they are one.

        Raises:
            CommandError: they are several.
        """
        if len(self.pods) > 1:
            names, place = ", ".join(pod.name for pod in self.pods), self.pods[0].namespace
            raise CommandError(f"several schedulers lead in namespace {place}: name one with --scheduler-pod ({names})")
        return self

    async def _ask(
        self, pod: SchedulerPod, path: str, query: Mapping[str, str], right: str, form: type[D]
    ) -> D | CommandError:
        from secondary_scheduler.clusterstatus.schedulerclient import NoSuchPodError, RefusedAnswerError

        try:
            return await pod.ask(path, query, form, f"to {right}")
        except RefusedAnswerError as error:
            return CommandError(f"{error}{self._advice(error.answer)}")
        except NoSuchPodError as error:
            if self.chosen:
                return error
            return CommandError(
                f"the leader {pod.place} is gone, and another one takes over when its Lease ends: ask again in some "
                "seconds"
            )
        except CommandError as error:
            return error

    def _advice(self, answer: SchedulerAnswer) -> str:
        if answer.status == 404 and _NOT_SERVED.fullmatch(answer.reason):
            return "; it does not serve this: it is older, or runs with --decision-history=0"
        if answer.status != 503 or "does not lead" not in answer.reason:
            return ""
        if self.chosen:
            return "; leave --scheduler-pod out to ask the one that leads"
        return "; the leader is changing: ask again"


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
    from scheduler.kube.client import ConfigError
    from secondary_scheduler.cli.connecting import asking_as, load_connection

    try:
        config = load_connection(kubeconfig, context)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error
    return schedulers_in(config, namespace, pod, port, asking_as(config, account), command)


def schedulers_in(
    config: ClientConfig, namespace: str | None, pod: str | None, port: int, asker: ClientConfig | None, command: str
) -> Schedulers:
    """As `find_schedulers`, over a connection; they are shown the token of `asker`, if there is one.

    Raises:
        CommandError: there is none, or the cluster does not say.
    """
    from scheduler.catalog import OPERATOR_NAMESPACE
    from scheduler.kube.client import KubeError
    from secondary_scheduler.clusterstatus.schedulerclient import SchedulerPod

    place = namespace or OPERATOR_NAMESPACE
    try:
        names = [pod] if pod else _leaders(config, place, command)
    except KubeError as error:
        raise refusal(error, config.server) from error
    return Schedulers(tuple(SchedulerPod(config, place, name, port, asker) for name in names), pod is not None)


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
