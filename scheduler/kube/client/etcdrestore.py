"""A cluster that went back to an older state, as when etcd is restored from a copy.

Its resource versions then begin again below those that were handed out. A watch from before does not fail: an API
server that was started anew takes its version for one that is still to come, sends nothing until the store has passed
it, and then goes on as if nothing were missing. Lists are of no help either: an API server that was not started anew
answers them from memory, with what was undone (docs/adr/0036-a-cluster-that-went-back.md has what each of them says).

What is always the store's own word is a read by name without a resource version, and the answer to a write. So:

- `QuorumVersions` compares such answers about one object: a lagging API server cannot give them, and only they count;
- `LeasePoll` makes one such read every five seconds, of a Lease that somebody renews, for who holds none itself;
- `EtcdRestores` has everything listed anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from scheduler.kube.client.errors import Forbidden, KubeError, NotFound
from scheduler.kube.client.http import KubeClient
from scheduler.kube.client.listwatch import NEVER, Reflector
from scheduler.kube.client.paths import api_path
from scheduler.kube.model import Codec, DecodeError, Object, ResourceVersion, newer_version
from scheduler.kube.primitives.timestamps import format_time

log = logging.getLogger(__name__)

CONTROL_PLANE_LEASES: Final = (("kube-system", "kube-scheduler"), ("kube-system", "kube-controller-manager"))
"""Namespaces and names of the Leases that a control plane renews every two seconds, with Kubernetes' own settings."""
POLL_SECONDS: Final = 5.0
FROM_MEMORY: Final[Mapping[str, str]] = {"resourceVersion": "0"}
"""Parameters of a read that the API server answers from its watch cache."""
_WRITES_A_SECOND: Final = 10_000
"""More than any etcd behind an API server takes."""
_FASTER: Final = 100
"""How much faster than ever before versions have to rise in addition: not every store counts its writes."""
_LOOK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 30.0
"""How long what may be missing from the API server is waited for."""
_LEASE: Final = Codec(Object)


class EtcdRestore(Struct, frozen=True):
    """That the cluster went back to an older state, as it was noticed.

    Attributes:
        sign: which object shows it, and how.
        unnoticed: whether the API server has not noticed, and goes on to show what was undone.
    """

    sign: str
    unnoticed: bool


class QuorumVersions:
    """The versions that quorum reads and writes of one object have shown, in the order of the requests.

    They contradict each other only where the store was put back: by a version that is lower than one before, or by one
    that rises faster than a store is written (`etcdutl snapshot restore --bump-revision`).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic."""
        self._clock = clock
        self._fastest: float | None = None
        self._newest = NEVER
        self._since = float("-inf")

    def contradiction(self, version: ResourceVersion) -> str:
        """Return how a version contradicts those before it; "" where it can follow them."""
        if newer_version(self._newest, version) is True:
            return f"is at version {version} after {self._newest}"
        if self._fastest is not None and self._speed(version) > max(_WRITES_A_SECOND, _FASTER * self._fastest):
            seconds = self._clock() - self._since
            return (
                f"is at version {version} {seconds:.0f} s after {self._newest}, as if etcd's revision had been bumped"
            )
        return ""

    def follow(self, version: ResourceVersion) -> None:
        """Take a version as the newest."""
        if version == self._newest:
            return
        if newer_version(version, self._newest) is True:
            self._fastest = max(self._fastest or 0.0, self._speed(version))
        self._newest, self._since = version, self._clock()

    def restart(self, version: ResourceVersion) -> None:
        """Take a version that contradicts those before it: what comes next is compared with it."""
        self._fastest = None
        self._newest = NEVER
        self.follow(version)

    def _speed(self, version: ResourceVersion) -> float:
        """Versions a second since the newest one was first seen, over a second at least."""
        if newer_version(version, self._newest) is not True:
            return 0.0
        return (int(version) - int(self._newest)) / max(1.0, self._clock() - self._since)


class LeasePoll:
    """Reads a Lease that somebody else renews, for a process that holds none.

    Of several, the first one that exists and may be read.
    """

    def __init__(
        self,
        client: KubeClient,
        leases: Sequence[tuple[str, str]],
        on_restore: Callable[[EtcdRestore], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Configure.

        Args:
            client: with the right to get the Leases.
            leases: namespaces and names.
            on_restore: called when the cluster went back.
            clock: monotonic.
        """
        self._client = client
        self._leases = tuple(leases)
        self._on_restore = on_restore
        self._versions = [QuorumVersions(clock) for _ in leases]
        self._refusals: dict[int, str] = {}
        self._chosen = 0

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> None:
        """Read once; where the answer contradicts those before it, a second one has to, too."""
        versions = self._versions[self._chosen]
        try:
            version = await self._read()
            if not versions.contradiction(version):
                self._refusals.clear()
                versions.follow(version)
                return
            remembered = NEVER
            with contextlib.suppress(NotFound):
                remembered = await self._read(FROM_MEMORY)
            version = await self._read()
        except (Forbidden, NotFound) as error:
            self._choose_next(error)
            return
        except (KubeError, DecodeError):
            return  # An API server that does not answer says nothing about its past.
        contradiction = versions.contradiction(version)
        if contradiction:
            versions.restart(version)
            namespace, name = self._leases[self._chosen]
            unnoticed = newer_version(remembered, version) is True
            self._on_restore(EtcdRestore(f"Lease {namespace}/{name} {contradiction}", unnoticed))

    async def _read(self, params: Mapping[str, str] | None = None) -> ResourceVersion:
        namespace, name = self._leases[self._chosen]
        path = api_path("coordination.k8s.io/v1", "leases", namespace=namespace, name=name)
        return _LEASE.decode(await self._client.get(path, params)).metadata.resource_version

    def _choose_next(self, error: KubeError) -> None:
        """Read another Lease from now on; say once that there is none."""
        complete = len(self._refusals) == len(self._leases)
        self._refusals[self._chosen] = str(error)
        if len(self._refusals) == len(self._leases) and not complete:
            reasons = "; ".join(self._refusals.values())
            log.warning("no Lease can be read: a cluster that goes back may go unnoticed: %s", reasons)
        self._chosen = (self._chosen + 1) % len(self._leases)


class EtcdRestores:
    """Has everything listed anew when the cluster went back, and knows how far that is. Construct it on the event loop.

    Attributes:
        pending: whether what is known is still from before.
    """

    def __init__(
        self, reflectors: Callable[[], Mapping[str, Reflector[Any, Any]]], on_change: Callable[[], None]
    ) -> None:
        """Configure.

        Args:
            reflectors: returns those there are, by what they list.
            on_change: called on the event loop when it begins, while `pending`, and when something has come of it.
        """
        self._reflectors = reflectors
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._noticed = asyncio.Event()
        self._sign = ""
        self._unnoticed = False
        self._as_before: dict[str, int] = {}
        """What an API server that has not noticed lists as before, with how often it had been listed then."""
        self.pending = False

    def notice(self, restore: EtcdRestore) -> None:
        """Have everything listed anew. May be called from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop may be closed by now.
            self._loop.call_soon_threadsafe(self._begin, restore)

    @property
    def current(self) -> bool:
        """Whether what is known is the cluster's state, as far as that can be told."""
        return not (self.pending or self._as_before)

    @property
    def message(self) -> str:
        """What happened last, and what has become of it; "" if nothing ever did."""
        if not self._sign:
            return ""
        if self.pending:
            return f"{self._sign}; still to be listed anew: {', '.join(self._waiting())}"
        if self._as_before:
            return f"{self._sign}; the API server has not noticed and lists what was undone: restart kube-apiserver"
        return f"{self._sign}; everything was listed anew"

    async def run(self) -> None:
        """Follow what comes of it until cancelled."""
        while True:
            await self._noticed.wait()
            self._noticed.clear()
            await self._wait_for_lists()
            while self._as_before and not self._noticed.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._noticed.wait()
                self._look_again()

    def _begin(self, restore: EtcdRestore) -> None:
        self.pending = True
        self._unnoticed = restore.unnoticed
        self._as_before = {}
        self._sign = f"at {format_time(datetime.now(UTC))} the cluster went back to an older state: {restore.sign}"
        log.warning("%s; everything is listed anew", self._sign)
        for reflector in self._reflectors().values():
            reflector.list_anew()
        self._noticed.set()
        self._on_change()

    async def _wait_for_lists(self) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while (waiting := self._waiting()) and not self._noticed.is_set():
            reflectors = self._reflectors()
            if time.monotonic() > until and all(reflectors[name].optional for name in waiting):
                break
            await asyncio.sleep(_LOOK_SECONDS)  # a refused list sets no event
        if self._noticed.is_set():
            return  # It went back once more.
        self.pending = False
        if self._unnoticed:
            self._as_before = self._doubtful()
        log.warning("%s", self.message)
        self._on_change()

    def _waiting(self) -> list[str]:
        """What is to be listed, and can be."""
        return [
            name
            for name, reflector in self._reflectors().items()
            if reflector.state.outdated and not (reflector.state.absent or reflector.state.unread or reflector.refusal)
        ]

    def _doubtful(self) -> dict[str, int]:
        return {name: reflector.state.lists for name, reflector in self._reflectors().items() if reflector.doubtful}

    def _look_again(self) -> None:
        """See what was listed once more since: its watch ended early, as it does where the API server is restarted."""
        doubtful = self._doubtful()
        left = {name: lists for name, lists in self._as_before.items() if doubtful.get(name) == lists}
        if left != self._as_before:
            self._as_before = left
            log.warning("%s", self.message)
            self._on_change()
