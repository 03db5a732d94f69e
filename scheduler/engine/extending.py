"""What the scheduling cycle asks of extenders: questions of decisions, and Bindings.

An extender that binds a pod talks to the API server itself. So its word is checked: a pod counts as bound once the API
server shows it on the node. An extender that does not answer may have bound the pod; it is read once more then. Where
it is not bound, the pod gives its node up: a Binding that comes later is seen by the watch, as another scheduler's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog

from scheduler.framework import (
    SUCCESS,
    Answer,
    Extender,
    ExtenderError,
    PodInfo,
    Question,
    Status,
    failure,
)

_PAUSES: Final = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds between two looks at a pod; the last again and again."""
log = structlog.get_logger(component="extenders")


class Caller(Protocol):
    """How extenders are asked (`extenders.HTTPExtenders`)."""

    @property
    def in_order(self) -> Sequence[Extender]:
        """All of them, in calling order."""

    async def ask(self, question: Question) -> Answer:
        """Ask what a decision wants to know; ExtenderError where what is to be sent cannot be read."""

    async def bind(self, extender: Extender, pod: PodInfo, node: str) -> str:
        """Have an extender bind a pod; returns its error, "" for none, or raises ExtenderError."""

    def timeout(self, extender: Extender) -> float:
        """Return how many seconds a call may take."""

    def forget_pod(self) -> None:
        """Read the pod again at the next question."""


class MayWrite(Protocol):
    """Says whether this process may write (`EngineHandle`)."""

    def write_refusal(self) -> Status | None:
        """Return why nothing may be written now; None where it may."""


ReadNode = Callable[[PodInfo], Awaitable[str | None]]
"""Reads on which node a pod is, "" for none; None where that is not known."""


class Extenders:
    """All extenders, for the cycle. Methods run on the event loop.

    Args:
        caller: how they are asked.
        read_node: looks a pod up at the API server.
    """

    def __init__(self, caller: Caller, read_node: ReadNode) -> None:
        self._caller = caller
        self._read_node = read_node
        self._attempted: PodInfo | None = None
        self.binding = 0
        """Pods that an extender is binding, or whose outcome is not known."""

    @property
    def in_order(self) -> Sequence[Extender]:
        """All of them, in calling order."""
        return self._caller.in_order

    def begin(self, pod: PodInfo) -> None:
        """An attempt at a pod begins, or goes on with preemption."""
        if self._attempted is not pod:
            self._caller.forget_pod()
        self._attempted = pod

    async def ask(self, question: Question) -> Answer:
        """Ask what a decision wants to know.

        Raises:
            ExtenderError: what is to be sent cannot be read.
        """
        return await self._caller.ask(question)

    async def bind(self, pod: PodInfo, node: str, may: MayWrite) -> Status | None:
        """Have the first interested extender with a bindVerb bind a pod; None where the profile's plugins are to."""
        for extender in self._caller.in_order:
            if not extender.bind_verb or not extender.is_interested(pod):
                continue
            refusal = may.write_refusal()
            if refusal is not None:
                return refusal
            self.binding += 1
            try:
                error = await self._bind(extender, pod, node)
            finally:
                self.binding -= 1
            if not error:
                return SUCCESS
            if not extender.ignorable:
                return failure(error)
            log.info("an ignorable extender failed to bind and is skipped", pod=pod.key, node=node, reason=error)
        return None

    async def _bind(self, extender: Extender, pod: PodInfo, node: str) -> str:
        """Return "" once the pod is on the node, else why it is not."""
        try:
            error = await self._caller.bind(extender, pod, node)
            patience = self._caller.timeout(extender)
        except ExtenderError as failed:
            error, patience = str(failed), 0.0
        deadline = asyncio.get_running_loop().time() + patience
        for number in range(1 << 20):
            seen = await self._read_node(pod)
            if seen == node:
                return ""
            if error:
                return error
            if seen:
                return f"extender {extender.url} bound the pod to node {seen}, not to {node}"
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(_PAUSES[min(number, len(_PAUSES) - 1)])
        return f"extender {extender.url} answered {extender.bind_verb} without an error, but the pod is not bound"
