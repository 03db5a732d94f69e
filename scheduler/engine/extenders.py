"""The extenders of a configuration, asked by HTTP.

While a question is out, no other pod is decided, as with kube-scheduler: extenders keep accounts of what they answered,
and a later pod must be decided on a cluster with the earlier one. Watches, bindings and the Lease go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, Protocol

import structlog
from msgspec import Raw

from scheduler.config import Extender as ExtenderConfiguration
from scheduler.engine import extenderwire as wire
from scheduler.engine.extenderhttp import ExtenderEndpoint, Observe
from scheduler.engine.extenderrecords import AnswerRecorder, open_recording
from scheduler.engine.extending import Extenders
from scheduler.engine.wholeobjects import WholeNodes, WholeObjects, whole_node
from scheduler.framework import (
    Answer,
    Extender,
    ExtenderError,
    FilterAnswer,
    FilterQuestion,
    PodInfo,
    PreemptAnswer,
    PreemptQuestion,
    PrioritizeAnswer,
    PrioritizeQuestion,
    Question,
    configured_extenders,
)
from scheduler.kube.client import KubeClient, Reflector, api_path
from scheduler.kube.model import UnstructuredCodec
from scheduler.observe import Metrics

_READS_AT_ONCE: Final = 16
log = structlog.get_logger(component="extenders")


class Objects(Protocol):
    """Whole pods and nodes (`wholeobjects.WholeObjects`)."""

    async def pod(self, pod: PodInfo) -> Raw:
        """Read a pod; ExtenderError where that fails."""

    async def nodes(self, names: Sequence[str]) -> list[Raw]:
        """Return nodes; ExtenderError where one cannot be read."""


class HTTPExtenders:
    """All extenders, in calling order. Methods run on the event loop.

    Args:
        configured: as the configuration has them.
        objects: what they are sent.
        metrics: where calls are counted and timed.
        recorder: notes all answers but those to bind.

    Raises:
        ValueError: TLS settings cannot be used; the text names the extender.
    """

    def __init__(
        self,
        configured: Sequence[ExtenderConfiguration],
        objects: Objects,
        metrics: Metrics,
        recorder: AnswerRecorder | None = None,
    ) -> None:
        self._recorder = recorder
        self.in_order = configured_extenders(configured)
        self._objects = objects
        self._endpoints = [
            ExtenderEndpoint(extender, _observer(metrics, extender.url_prefix)) for extender in configured
        ]
        self._pod: tuple[PodInfo, Raw] | None = None

    async def ask(self, question: Question) -> Answer:
        """Ask what a decision wants to know.

        Raises:
            ExtenderError: what is to be sent cannot be read. A failure of an extender is an answer with an error.
        """
        answer = await self._ask(question)
        if self._recorder is not None:
            self._recorder.note(question, answer)
        return answer

    async def _ask(self, question: Question) -> Answer:
        match question:
            case FilterQuestion():
                return await self._filter(question)
            case PrioritizeQuestion():
                return await self._prioritize(question)
            case PreemptQuestion():
                return await self._preempt(question)

    async def bind(self, extender: Extender, pod: PodInfo, node: str) -> str:
        """Have an extender bind a pod; returns its error, "" where it says that it did.

        Raises:
            ExtenderError: it did not answer; it may have bound the pod, or may do so yet.
        """
        endpoint = self._endpoints[extender.index]
        return await endpoint.call(extender.bind_verb, wire.bind_request(pod, node), wire.bind_error)

    def timeout(self, extender: Extender) -> float:
        """Return how many seconds a call may take."""
        return self._endpoints[extender.index].timeout

    def forget_pod(self) -> None:
        """Read the pod again at the next question: another attempt begins."""
        self._pod = None

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints:
            await endpoint.close()

    async def _filter(self, question: FilterQuestion) -> FilterAnswer:
        extender = question.extender
        body = await self._nodes_request(question.pod, extender, question.nodes)
        try:
            return await self._endpoints[extender.index].call(
                extender.filter_verb, body, lambda answer: wire.filter_answer(answer, extender, question.nodes)
            )
        except ExtenderError as error:
            if extender.ignorable:
                log.info("an ignorable extender failed and is skipped", pod=question.pod.key, reason=str(error))
            return FilterAnswer(error=str(error), unanswered=True)

    async def _prioritize(self, question: PrioritizeQuestion) -> PrioritizeAnswer:
        bodies = {
            capable: await self._nodes_request(question.pod, extender, question.nodes)
            for capable, extender in {extender.cache_capable: extender for extender in question.extenders}.items()
        }
        results = await asyncio.gather(
            *(
                self._scores(extender, bodies[extender.cache_capable], question.nodes)
                for extender in question.extenders
            ),
            return_exceptions=True,
        )
        total: dict[str, int] = {}
        errors: dict[Extender, str] = {}
        for extender, result in zip(question.extenders, results, strict=True):
            if isinstance(result, ExtenderError):
                errors[extender] = str(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                for node, score in result.items():
                    total[node] = total.get(node, 0) + score
        for error in errors.values():
            log.debug("an extender gave no scores", pod=question.pod.key, reason=error)
        return PrioritizeAnswer(total, tuple(errors.values()), tuple(errors))

    async def _scores(self, extender: Extender, body: bytes, nodes: Collection[str]) -> dict[str, int]:
        return await self._endpoints[extender.index].call(
            extender.prioritize_verb, body, lambda answer: wire.scores(answer, extender, nodes)
        )

    async def _nodes_request(self, pod: PodInfo, extender: Extender, names: Sequence[str]) -> bytes:
        nodes = None if extender.cache_capable else await self._objects.nodes(names)
        return wire.nodes_request(await self._whole_pod(pod), nodes, names)

    async def _whole_pod(self, pod: PodInfo) -> Raw:
        if self._pod is None or self._pod[0] is not pod:
            self._pod = pod, await self._objects.pod(pod)
        return self._pod[1]

    async def _preempt(self, question: PreemptQuestion) -> PreemptAnswer:
        extender = question.extender
        pod = await self._whole_pod(question.pod)
        uids = {
            node: ([victim.uid for victim in victims.pods], victims.violations)
            for node, victims in question.victims.items()
        }
        whole: dict[str, tuple[list[Raw], int]] | None = None
        if not extender.cache_capable:
            turns = asyncio.Semaphore(_READS_AT_ONCE)
            whole = {
                node: (
                    list(await asyncio.gather(*(_in_turn(turns, self._objects.pod, each) for each in victims.pods))),
                    victims.violations,
                )
                for node, victims in question.victims.items()
            }
        body = wire.preempt_request(pod, whole, uids)
        try:
            return await self._endpoints[extender.index].call(
                extender.preempt_verb, body, lambda answer: wire.preempt_answer(answer, question.victims)
            )
        except ExtenderError as error:
            return PreemptAnswer(error=str(error))


def _observer(metrics: Metrics, url: str) -> Observe:
    def observe(verb: str, result: str, seconds: float) -> None:
        metrics.extender_duration.labels(url, verb, result).observe(seconds)

    return observe


class Extending:
    """All that the extenders of a process need: connections to them, and what they are sent.

    Args:
        configured: as the configuration has them.
        client: for reads; closed by `close`.
        metrics: where calls are timed.
        recording: the file that answers are recorded in, `-` for standard output; "" for none.

    Raises:
        OSError: this file cannot be opened.
        ValueError: TLS settings cannot be used; the text names the extender.
    """

    def __init__(
        self, configured: Sequence[ExtenderConfiguration], client: KubeClient, metrics: Metrics, recording: str = ""
    ) -> None:
        recorder = AnswerRecorder(open_recording(recording)) if recording else None
        self._client = client
        whole = any(not each.node_cache_capable and (each.filter_verb or each.prioritize_verb) for each in configured)
        self._nodes = WholeNodes() if whole else None
        self._objects = WholeObjects(client, self._nodes)
        self._http = HTTPExtenders(configured, self._objects, metrics, recorder)
        self.extenders = Extenders(self._http, self._objects.node_of)

    def reflectors(self) -> dict[str, Reflector[Any, Any]]:
        """Return the watch on whole nodes, where some extender is sent any."""
        if self._nodes is None:
            return {}
        path = api_path("v1", "nodes")
        return {"nodes for extenders": Reflector(self._client, path, UnstructuredCodec(), self._nodes, whole_node)}

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()
        await self._client.close()


async def _in_turn(turns: asyncio.Semaphore, read: Callable[[PodInfo], Awaitable[Raw]], pod: PodInfo) -> Raw:
    async with turns:
        return await read(pod)
