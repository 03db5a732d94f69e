"""Leases of upstream's operator in further namespaces: the operator that holds one reconciles that namespace."""

from collections.abc import Callable, Collection
from functools import partial

import structlog

from scheduler.kube.client import ClientConfig
from scheduler.kube.lease import LeaseElector, LeaseSettings

log = structlog.stdlib.get_logger(__name__)


class NamespaceLeases:
    """Competes for one Lease per namespace, and again for one that is lost; the other namespaces stay served."""

    def __init__(
        self,
        config: ClientConfig,
        namespaces: Collection[str],
        lease: str,
        *,
        identity: str,
        on_acquired: Callable[[str], None],
        user_agent: str,
    ) -> None:
        """`on_acquired` is called with a namespace, on some thread, when its Lease has been acquired."""
        self._config = config
        self._lease = lease
        self._identity = identity
        self._on_acquired = on_acquired
        self._user_agent = user_agent
        self._stopped = False
        self._electors = {namespace: self._elector(namespace) for namespace in namespaces}

    def start(self) -> None:
        """Begin to compete."""
        for elector in self._electors.values():
            elector.start()

    def stop(self) -> None:
        """Release what is held; blocks for as long as the API server takes."""
        self._stopped = True
        for elector in list(self._electors.values()):
            elector.stop()

    def holds(self, namespace: str) -> bool:
        """Whether this operator may write for instances of the namespace at this very moment."""
        return self._electors[namespace].is_leader()

    def holder(self, namespace: str) -> str:
        """Who else held a namespace's Lease when it was last looked at, or ""."""
        elector = self._electors[namespace]
        other = elector.observed_holder
        return "" if elector.is_leader() or other == elector.identity else other

    def _elector(self, namespace: str) -> LeaseElector:
        return LeaseElector(
            self._config,
            LeaseSettings(namespace=namespace, name=self._lease),
            identity=self._identity,
            on_started_leading=partial(self._on_acquired, namespace),
            on_lost=partial(self._compete_again, namespace),
            user_agent=self._user_agent,
        )

    def _compete_again(self, namespace: str, reason: str) -> None:
        log.warning("lost a namespace's Lease: its instances are not reconciled", namespace=namespace, why=reason)
        if not self._stopped:
            self._electors[namespace] = self._elector(namespace)
            self._electors[namespace].start()
