"""The history of decisions at a change of the leader: the old one serves it, the new one asks for it. Nothing of it is
written to the cluster, and no pod waits for it (docs/adr/0037).

Who is asked follows from what the API server says: the pod that held the Lease last, else a pod of the same scheduler
that is ending. Both sides show a token of an audience of its own, bound to their pod, which the other has reviewed.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import structlog
from msgspec import Struct, field

from scheduler.catalog import HANDOVER_AUDIENCE, HANDOVER_PATH
from scheduler.engine import MAX_HANDOVER_BYTES, DecisionHistory, HistoryError, decode_history
from scheduler.kube.client import (
    ApiError,
    ClientConfig,
    KubeClient,
    KubeError,
    MalformedResponse,
    NotFound,
    api_path,
    review_token,
)
from scheduler.observe import HandedOverAnswer, UnansweredError
from scheduler.operand import LABEL_APP

_INHERIT_SECONDS: Final = 10.0
_ASK_AGAIN_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 1.0
_REQUEST_SECONDS: Final = 5.0
_MAX_PODS: Final = 50
_MAX_ANSWER: Final = 2 * MAX_HANDOVER_BYTES
"""Bytes: base64 makes the details a third larger."""
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
"""Where the review of a token that is bound to a pod has the pod's name."""
T = TypeVar("T")
log = structlog.get_logger(component="handover")


class _Metadata(Struct, rename="camel"):
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    deletion_timestamp: str | None = None


class _Spec(Struct, rename="camel"):
    service_account_name: str = ""


class _Status(Struct, rename={"pod_ip": "podIP"}):
    phase: str = ""
    pod_ip: str = ""


class _Pod(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec = field(default_factory=_Spec)
    status: _Status = field(default_factory=_Status)

    @property
    def name(self) -> str:
        return self.metadata.name


class _Pods(Struct):
    items: list[_Pod] = field(default_factory=list)


class _User(Struct):
    username: str = ""
    extra: dict[str, list[str]] | None = None


class _ReviewStatus(Struct):
    authenticated: bool = False
    user: _User = field(default_factory=_User)
    audiences: list[str] = field(default_factory=list)


class _Review(Struct):
    status: _ReviewStatus = field(default_factory=_ReviewStatus)


class _Refused(Exception):
    """A pod has nothing for us, whenever it is asked."""


class Handover:
    """Both sides of a hand-over, of one process. All but `right`, `token` and `delivered` runs on the scheduling loop.

    Args:
        client: to the API server.
        history: what is handed over, and completed.
        lease: namespace and name of the Lease: whoever may hold it, may have the history.
        pod: this process's own, by name.
        port: the secure port, which all replicas have.
        most: records to take over.
        wall: the time, in seconds since 1970.
        token_file: with this pod's token of the audience for this.
    """

    def __init__(
        self,
        client: KubeClient,
        history: DecisionHistory,
        *,
        lease: tuple[str, str],
        pod: str,
        port: int,
        most: int,
        wall: Callable[[], float],
        token_file: Path,
    ) -> None:
        self._client, self._history, self._lease = client, history, lease
        self._pod, self._port, self._most, self._wall = pod, port, most, wall
        self._token_file = token_file
        self._pods = api_path("v1", "pods", namespace=client.config.namespace)
        self._offering = False
        self._loop = asyncio.get_running_loop()
        self._delivered = asyncio.Event()

    # The old leader -------------------------------------------------------------------------------------------------

    def export(self) -> bytes:
        """Return the history, once this process has stopped to lead.

        Raises:
            UnansweredError: it has not, or was asked before.
        """
        if not self._offering:
            raise UnansweredError(503, "this replica has nothing to hand over")
        return self._history.export()

    def right(self) -> dict[str, str]:
        """Return the right to hold the Lease."""
        namespace, name = self._lease
        return {
            "verb": "update",
            "group": "coordination.k8s.io",
            "resource": "leases",
            "namespace": namespace,
            "name": name,
        }

    def token(self) -> str:
        """Return this pod's token."""
        return self._token_file.read_text(encoding="ascii").strip()

    def delivered(self) -> None:
        """The next leader has the history."""
        self._loop.call_soon_threadsafe(self._delivered.set)

    async def offer(self, seconds: float) -> None:
        """Serve the history until the next leader has it, there is no other replica, or so many seconds have passed.

        The Lease must be released, or lost, before.
        """
        if not len(self._history):
            return
        self._offering = True
        delivered = asyncio.create_task(self._delivered.wait(), name="delivered")
        try:
            async with asyncio.timeout(seconds):
                while not self._delivered.is_set() and await self._has_successor():
                    await asyncio.wait([delivered], timeout=_LOOK_SECONDS)
        except TimeoutError:
            log.info("the history was not asked for", seconds=seconds)
        else:
            log.info("the history was handed over" if self._delivered.is_set() else "nobody is there for the history")
        finally:
            delivered.cancel()
            self._offering = False

    def offer_from_thread(self, seconds: float) -> None:
        """As `offer`, from another thread, which waits no longer than that whatever the loop does."""
        try:
            asyncio.run_coroutine_threadsafe(self.offer(seconds), self._loop).result(seconds)
        except Exception as error:
            log.info("the history was not offered", reason=f"{type(error).__name__}: {str(error)[:200]}")

    async def _has_successor(self) -> bool:
        """Whether there is a replica that may lead next; also True where the API server does not say."""
        try:
            own = await self._own()
            return own is not None and any(not pod.metadata.deletion_timestamp for pod in await self._replicas(own))
        except KubeError:
            return True

    # The new leader -------------------------------------------------------------------------------------------------

    async def inherit(self, last_leader: str) -> None:
        """Ask the leader before for its history, for some seconds; whatever comes of it, nothing waits for it.

        Args:
            last_leader: the pod that held the Lease last; "" where it was free when this replica looked at it.
        """
        reason = "its pod does not answer"
        try:
            async with asyncio.timeout(_INHERIT_SECONDS):
                reason = await self._inherit(last_leader)
        except TimeoutError:
            pass
        except Exception as error:
            # Nothing else may suffer from it.
            reason = f"{type(error).__name__}: {str(error)[:200]}"
        if reason:
            log.warning("the history of the leader before is lost", leader=last_leader or None, reason=reason)

    async def _inherit(self, last_leader: str) -> str:
        """Return why there is no history to be had; "" where there is, or where there was no leader."""
        if last_leader == self._pod:
            return "its process ended, and this is the next one in the same pod"
        refused: dict[str, str] = {}
        own = await self._own()
        if own is None:
            return "this process is in no pod that the API server knows" if last_leader else ""
        while True:
            leaders = await self._leaders(own, last_leader)
            if not leaders:
                return f"there is no pod {last_leader} any more" if last_leader else ""
            for pod in leaders:
                if pod.name in refused:
                    continue
                try:
                    await self._take(pod, own)
                except _Refused as error:
                    refused[pod.name] = f"{pod.name} {error}"
                except KubeError:
                    continue  # not yet, or not any more: the pods say which
                else:
                    return ""
            if len(refused) == len(leaders):
                return "; ".join(refused.values())
            await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def _leaders(self, own: _Pod, last_leader: str) -> list[_Pod]:
        """The pods that may have led before: the one that is known to, else those that are ending."""
        others = [pod for pod in await self._replicas(own) if pod.status.pod_ip]
        known = [pod for pod in others if pod.name == last_leader]
        return known or [pod for pod in others if pod.metadata.deletion_timestamp]

    async def _take(self, pod: _Pod, own: _Pod) -> None:
        """Take a pod's history over.

        Raises:
            KubeError: it does not answer, or has nothing yet.
            _Refused: it will not, or is not who it should be.
        """
        try:
            answer = _decoded(await self._ask(pod), HandedOverAnswer)
        except ApiError as error:
            if error.status in (401, 403, 404):
                raise _Refused(f"answers {error.status}: {error.message[:200]}") from error
            raise
        except MalformedResponse as error:
            raise _Refused(str(error)) from error
        if not await self._is_known(answer.token, pod, own):
            raise _Refused("cannot show that it is this pod")
        try:
            history = await asyncio.to_thread(decode_history, bytes(answer.history), self._wall(), self._most)
        except HistoryError as error:
            raise _Refused(f"sent something else: {str(error)[:200]}") from error
        self._history.inherit(history, pod.name)
        log.info("took the history over", leader=pod.name, decisions=len(history.records), refused=history.refused)

    async def _ask(self, pod: _Pod) -> bytes:
        address = ipaddress.ip_address(pod.status.pod_ip)
        host = f"[{address}]" if address.version == 6 else str(address)
        # Its certificate is self-signed in most installations: not it but its token says who answers.
        config = ClientConfig(
            server=f"https://{host}:{self._port}",
            insecure_skip_tls_verify=True,
            token_file=self._token_file,
            source="handover",
        )
        async with KubeClient(config, qps=0, timeout=_REQUEST_SECONDS, max_bytes=_MAX_ANSWER) as client:
            return await client.get(HANDOVER_PATH)

    async def _is_known(self, token: str, pod: _Pod, own: _Pod) -> bool:
        """Whether a token was issued to this pod, for this purpose."""
        status = _decoded(await review_token(self._client, token, HANDOVER_AUDIENCE), _Review).status
        account = f"system:serviceaccount:{self._client.config.namespace}:{own.spec.service_account_name}"
        return (
            status.authenticated
            and HANDOVER_AUDIENCE in status.audiences
            and status.user.username == account
            and (status.user.extra or {}).get(_POD_NAME) == [pod.name]
        )

    # Both -----------------------------------------------------------------------------------------------------------

    async def _own(self) -> _Pod | None:
        try:
            return _decoded(await self._client.get(f"{self._pods}/{self._pod}"), _Pod)
        except NotFound:
            return None

    async def _replicas(self, own: _Pod) -> Sequence[_Pod]:
        """The other pods of this scheduler that run or will."""
        app = own.metadata.labels.get(LABEL_APP)
        if app is None:
            return []
        body = await self._client.get(self._pods, {"labelSelector": f"{LABEL_APP}={app}", "limit": _MAX_PODS})
        return [
            pod
            for pod in _decoded(body, _Pods).items
            if pod.name != own.name
            and pod.spec.service_account_name == own.spec.service_account_name
            and pod.status.phase in ("Pending", "Running")
        ]


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedResponse(f"not what was asked for: {str(error)[:200]}") from error
