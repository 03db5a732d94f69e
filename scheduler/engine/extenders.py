"""The extenders of a configuration, asked by HTTP.

While a question is out, no other pod is decided, as with kube-scheduler: extenders keep accounts of what they answered,
and a later pod must be decided on a cluster with the earlier one. Watches, bindings and the Lease go on.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog
from aiohttp import ClientTimeout, TCPConnector
from msgspec import Raw

from scheduler.config import Extender as ExtenderConfiguration, ExtenderTLSConfig
from scheduler.engine import extenderwire as wire
from scheduler.engine.extenderrecords import AnswerRecorder, open_recording
from scheduler.engine.extenderwire import NonsenseError, one_line, without_type
from scheduler.engine.extending import Extenders
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
from scheduler.kube.client import (
    ClientConfig,
    ConfigError,
    Credentials,
    KubeClient,
    KubeError,
    NotFound,
    Reflector,
    api_path,
    proxy_variable,
)
from scheduler.kube.model import (
    PODS,
    DecodeError,
    EventType,
    ObjectMeta,
    ResourceVersion,
    Unstructured,
    UnstructuredCodec,
)
from scheduler.observe import Metrics

_TIMEOUT: Final = 10.0
_uid = msgspec.json.Decoder(dict[str, Raw])


class WholeNode(NamedTuple):
    """A node's name, and all of it as it is sent."""

    name: str
    content: Raw


def whole_node(node: Unstructured) -> WholeNode:
    """Return a node as it is sent to extenders."""
    return WholeNode(node.metadata.name, without_type(msgspec.json.encode(node.content)))


class WholeNodes:
    """Sink of the second watch on nodes, which there is only where some extender is sent whole Nodes: the scheduler
    itself keeps only what filters and scores read. They are kept as JSON, some ten kilobytes each."""

    def __init__(self) -> None:
        self._nodes: dict[str, Raw] = {}

    def get(self, name: str) -> Raw | None:
        """Return a node; None where the watch has not shown it."""
        return self._nodes.get(name)

    def replace(self, items: Sequence[WholeNode], resource_version: ResourceVersion) -> None:
        """Take a complete list: what is not in it is gone."""
        self._nodes = {node.name: node.content for node in items}

    def apply(self, events: Sequence[tuple[EventType, WholeNode]]) -> None:
        """Apply a batch of changes, in their order."""
        for kind, node in events:
            if kind is EventType.DELETED:
                self._nodes.pop(node.name, None)
            else:
                self._nodes[node.name] = node.content

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Forget a node that cannot be read; the watch beside this one says so."""
        self._nodes.pop(metadata.name, None)


class WholeObjects:
    """Pods and nodes as the API server has them. A pod is read when an extender is to be asked about it: one read per
    attempt, of few pods.

    Args:
        client: for reads; with limits of its own.
        nodes: the watched nodes; None where no extender is sent any.
    """

    def __init__(self, client: KubeClient, nodes: WholeNodes | None = None) -> None:
        self._client = client
        self._nodes = nodes

    async def pod(self, pod: PodInfo) -> Raw:
        """Read a pod.

        Raises:
            ExtenderError: it cannot be read, or is another one by now.
        """
        content = await self._read(api_path("v1", "pods", namespace=pod.namespace, name=pod.name), f"pod {pod.key}")
        if _uid_of(content) != pod.uid:
            raise ExtenderError(f"pod {pod.key} has been replaced")
        return content

    async def node_of(self, pod: PodInfo) -> str | None:
        """Read on which node a pod is; "" for none, also where the pod is gone. None where it cannot be read."""
        try:
            path = api_path("v1", "pods", namespace=pod.namespace, name=pod.name)
            read = PODS.decode(await self._client.get(path, timeout=_TIMEOUT))
        except NotFound:
            return ""
        except (KubeError, DecodeError):
            return None
        return read.spec.node_name if read.metadata.uid == pod.uid else ""

    async def nodes(self, names: Iterable[str]) -> list[Raw]:
        """Return nodes in the order of their names; one that the second watch has yet to show is read.

        Raises:
            ExtenderError: one cannot be read.
        """
        result = []
        for name in names:
            node = self._nodes.get(name) if self._nodes is not None else None
            result.append(node or await self._read(api_path("v1", "nodes", name=name), f"node {name}"))
        return result

    async def _read(self, path: str, label: str) -> Raw:
        try:
            return without_type(await self._client.get(path, timeout=_TIMEOUT))
        except KubeError as error:
            raise ExtenderError(f"{label} cannot be read for an extender: {str(error)[:300]}") from error


def _uid_of(content: Raw) -> str:
    try:
        metadata = _uid.decode(_uid.decode(content)["metadata"])
        return msgspec.json.decode(metadata["uid"], type=str)
    except (KeyError, msgspec.MsgspecError):
        return ""


DEFAULT_TIMEOUT: Final = 5.0
"""Seconds, where the configuration names no httpTimeout."""
MIN_ANSWER_BYTES: Final = 16 << 20
"""An answer may have so many bytes, or twice as many as the question: it may hold the same Nodes."""
_CONNECTIONS: Final = 8

T = TypeVar("T")
Observe = Callable[[str, str, float], None]
"""Is told of an exchange: the verb, what came of it (`answered`, `refused`, `timeout`, `nonsense`, `failed`), and its
seconds."""


class ExtenderEndpoint:
    """Where an extender is asked: a session of its own, with the TLS that its configuration asks for. Use it on one
    event loop; `close` it in the end.

    Follows makeTransport and send of kube-scheduler 1.34. Redirects are not followed, as a service that was not
    configured must not be sent pods; an answer is read up to a limit, and the timeout spans the whole exchange.
    """

    def __init__(
        self, configuration: ExtenderConfiguration, observe: Observe = lambda verb, result, seconds: None
    ) -> None:
        """Check the TLS settings; nothing is opened yet.

        Raises:
            ValueError: they contradict each other, or a file of them cannot be read.
        """
        self._base = configuration.url_prefix.rstrip("/")
        self._timeout = configuration.http_timeout or DEFAULT_TIMEOUT
        self._observe = observe
        self._credentials: Credentials | None = None
        self._session: aiohttp.ClientSession | None = None
        self._server_name = configuration.tls_config.server_name if configuration.tls_config is not None else ""
        try:
            config = _client_config(configuration)
            if urlsplit(self._base).scheme == "https":
                self._credentials = Credentials(config)
                self._credentials.ssl_context()
        except ConfigError as error:
            raise ValueError(str(error)) from error

    @property
    def timeout(self) -> float:
        """Seconds that an exchange may take."""
        return self._timeout

    def url(self, verb: str) -> str:
        """Return the address for a verb."""
        return f"{self._base}/{verb}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return what verifies the extender; None over HTTP."""
        return self._credentials.ssl_context() if self._credentials is not None else None

    async def status(self, verb: str) -> int:
        """Return the status of a GET without a body, which asks the extender for nothing.

        Raises:
            ExtenderError: there is no answer; the text names verb, URL and cause.
        """
        try:
            async with self._request("GET", verb, None) as response:
                return response.status
        except TimeoutError as error:
            raise self._error(verb, f"no answer within {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError, ConfigError) as error:
            raise self._error(verb, one_line([str(error) or type(error).__name__])) from error

    async def call(self, verb: str, body: bytes, read: Callable[[bytes], T]) -> T:
        """Send a request and return what is read of the answer.

        Raises:
            ExtenderError: there is no answer with status 200 that can be read; the text names verb, URL and cause.
        """
        began, result = time.monotonic(), "failed"
        try:
            answer = read(await self._exchange(verb, body))
            result = "answered"
            return answer
        except TimeoutError as error:
            result = "timeout"
            raise self._error(verb, f"no answer within {self._timeout:g} s") from error
        except _RefusedError as error:
            result = "refused"
            # Upstream's words.
            raise ExtenderError(f"failed {verb} with extender at URL {self.url(verb)}, code {error.status}") from error
        except (NonsenseError, ExtenderError) as error:
            result = "nonsense"
            raise error if isinstance(error, ExtenderError) else self._error(verb, str(error)) from error
        except (aiohttp.ClientError, OSError, ValueError, ConfigError) as error:
            raise self._error(verb, one_line([str(error) or type(error).__name__])) from error
        finally:
            self._observe(verb, result, time.monotonic() - began)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, verb: str, body: bytes) -> bytes:
        limit = max(MIN_ANSWER_BYTES, 2 * len(body))
        async with self._request("POST", verb, body) as response:
            if response.status != 200:
                raise _RefusedError(response.status)
            parts: list[bytes] = []
            size = 0
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > limit:
                    response.close()
                    raise NonsenseError(f"the answer is larger than {limit} bytes")
                parts.append(chunk)
            return b"".join(parts)

    def _request(
        self, method: str, verb: str, body: bytes | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._open().request(
            method,
            self.url(verb),
            data=body,
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
            allow_redirects=False,
            timeout=ClientTimeout(total=self._timeout),
            ssl=self.ssl_context() or True,
            server_hostname=self._server_name or None,
            proxy=self._proxy(),
        )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=TCPConnector(limit=_CONNECTIONS),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "kube-scheduler"},
            )
        return self._session

    def _proxy(self) -> str | None:
        """Return the proxy that Go's client would use."""
        variable = proxy_variable(self._base, os.environ)
        return os.environ[variable] if variable else None

    def _error(self, verb: str, cause: str) -> ExtenderError:
        return ExtenderError(f"failed {verb} with extender at URL {self.url(verb)}: {cause}")


class _RefusedError(Exception):
    """The status is not 200."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


def _client_config(configuration: ExtenderConfiguration) -> ClientConfig:
    """Return the TLS settings in force.

    With enableHTTPS and no certificate authority nothing is verified, as upstream. Data goes before files, and a
    certificate without its key is not used.
    """
    tls = configuration.tls_config or ExtenderTLSConfig()
    has_authority = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (configuration.enable_https and not has_authority)
    label = f"extender {configuration.url_prefix}"
    if insecure and has_authority:
        raise ConfigError(f"{label}: specifying a root certificates file with the insecure flag is not allowed")
    has_pair = bool((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data))
    return ClientConfig(
        server=configuration.url_prefix,
        insecure_skip_tls_verify=insecure,
        ca_file=Path(tls.ca_file) if tls.ca_file and not tls.ca_data else None,
        ca_data=_data(tls.ca_data, "caData", label),
        cert_file=Path(tls.cert_file) if tls.cert_file and has_pair and not tls.cert_data else None,
        cert_data=_data(tls.cert_data, "certData", label) if has_pair else None,
        key_file=Path(tls.key_file) if tls.key_file and has_pair and not tls.key_data else None,
        key_data=_data(tls.key_data, "keyData", label) if has_pair else None,
        source=label,
    )


def _data(text: str, field: str, label: str) -> bytes | None:
    if not text:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        # The value is a secret: it is not shown.
        raise ConfigError(f"{label}: tlsConfig.{field} is not valid base64") from None


_READS_AT_ONCE: Final = 16
log = structlog.get_logger(component="extenders")


class WholeObjectReader(Protocol):
    """Whole pods and nodes (`WholeObjects`)."""

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
        objects: WholeObjectReader,
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
                    list(
                        await asyncio.gather(*(_in_turn(turns, self._objects.pod, victim) for victim in victims.pods))
                    ),
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
        whole = any(
            not extender.node_cache_capable and (extender.filter_verb or extender.prioritize_verb)
            for extender in configured
        )
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
