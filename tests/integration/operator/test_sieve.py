"""Sieve's views of the operator: it starts with the past, it never sees some states. The end is that of an undisturbed
run, nothing of the end was deleted or made twice, and no Secret was read but those it is told.

The third view, an end between two writes, is `test_kills.py`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.config import configuration_hash
from secondary_scheduler.operator.options import OperatorOptions
from tests.faults.proxy import Exchange, Hold, Proxy, Rule, end_watch_with
from tests.faults.sieve import past_lists
from tests.integration.operator.rights import ACCOUNT
from tests.integration.operator.support import Api, Operator, TestKubelet
from tests.integration.operator.test_kills import OTHER_IMAGE, converged, state
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE, OTHER_CONFIG

pytestmark = [pytest.mark.integration, pytest.mark.slow]

IDENTITY = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
WATCHED = {"verb": "watch", "resource": "secondaryschedulers|configmaps|deployments|services|roles|rolebindings|pods"}
LISTED = {"verb": "list", "resource": WATCHED["resource"]}


class View:
    """A proxy on a thread of its own, which says what the operator sees."""

    def __init__(self, cluster: Any, user: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.proxy: Proxy = self._call(self._opened(cluster, user))

    @staticmethod
    async def _opened(cluster: Any, user: str) -> Proxy:
        return await Proxy.of(cluster, user=user, groups=("system:serviceaccounts",)).__aenter__()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def close(self) -> None:
        self._call(self.proxy.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def call(self, action: Callable[[], Any]) -> None:
        """On the proxy's thread."""
        self._loop.call_soon_threadsafe(action)

    def writes(self) -> int:
        """So far, those of Leases left out."""
        return sum(
            exchange.target.verb not in ("get", "list", "watch") and exchange.target.resource != "leases"
            for exchange in self.proxy.exchanges
        )

    def secrets_read(self) -> set[str]:
        """Names; empty text for a read of more than one."""
        names = set()
        for exchange in self.proxy.exchanges:
            if exchange.target.resource == "secrets":
                query = parse_qs(urlsplit(exchange.request.raw_path).query)
                selector = query.get("fieldSelector", [""])[0]
                names.add(exchange.target.name or selector.removeprefix("metadata.name="))
        return names


@pytest.fixture(scope="module")
def view(control_plane: Any, api: Api, rights: Any) -> Iterator[View]:
    rights.grant()
    view = View(control_plane, f"system:serviceaccount:{api.namespace}:{ACCOUNT}")
    yield view
    view.close()
    rights.withdraw()


@pytest.fixture(scope="module")
def operator(api: Api, view: View, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    directory = tmp_path_factory.mktemp("sieve")
    kubeconfig = view.proxy.write_kubeconfig(directory / "kubeconfig")
    operator = Operator(kubeconfig, api.namespace, directory / "operator.log")
    operator.start()
    operator.wait_until_leading()
    yield operator
    assert operator.end() == 0


@pytest.fixture
def instance(api: Api, operator: Operator, kubelet: TestKubelet) -> Iterator[None]:
    """It runs the first configuration."""
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "cluster", **IDENTITY, spec=spec)
    api.wait_for_hash(configuration_hash(CONFIG))
    eventually(lambda: api.condition("Progressing").get("status") == "False", "at rest")
    yield
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    api.delete("configmaps", "config")


def change(api: Api) -> None:
    """Another configuration, another image, and something of the operator's goes."""
    api.patch("configmaps", "config", {"data": {"config.yaml": OTHER_CONFIG}})
    api.patch("secondaryschedulers", "cluster", {"spec": {"schedulerImage": OTHER_IMAGE}})
    api.delete("services", "metrics")


def at_rest(api: Api) -> tuple[Any, ...]:
    eventually(lambda: converged(api), "converged")
    eventually(lambda: api.condition("Progressing").get("status") == "False", "at rest")
    return state(api)


def deeds(control_plane: Any, api: Api, since: int) -> Counter[tuple[str, str, str]]:
    """(created or deleted, resource, name) of what the operator made and deleted since a line of the audit log."""
    user = f"system:serviceaccount:{api.namespace}:{ACCOUNT}"
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in control_plane.audit_log.read_text().splitlines()[since:]:
        entry = json.loads(line)
        about, code = entry.get("objectRef") or {}, (entry.get("responseStatus") or {}).get("code")
        if (entry.get("impersonatedUser") or {}).get("username") != user or about.get("subresource"):
            continue
        if entry["verb"] == "delete" and code == 200:
            counts["deleted", about["resource"], about.get("name", "")] += 1
        elif code == 201:
            counts["created", about["resource"], about.get("name", "")] += 1
    return counts


def lines(control_plane: Any) -> int:
    return len(control_plane.audit_log.read_text().splitlines())


def judge(control_plane: Any, api: Api, since: int) -> None:
    """Of what is there in the end nothing was deleted, and nothing made twice."""
    done = deeds(control_plane, api, since)
    present = {
        (kind, name) for kind in ("serviceaccounts", "deployments", "roles", "rolebindings") for name in api.names(kind)
    }
    # It made them before; only what somebody else deleted is made again.
    again = {key: count for key, count in done.items() if key[1:] in present}
    assert not again, again
    assert done["created", "services", "metrics"] == 1, done


@pytest.fixture(scope="module")
def expected(api: Api, operator: Operator, control_plane: Any) -> tuple[Any, ...]:
    """Where it ends when it sees everything."""
    kubelet = TestKubelet(control_plane.kubeconfig, api.namespace)
    kubelet.start()
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "cluster", **IDENTITY, spec=spec)
    api.wait_for_hash(configuration_hash(CONFIG))
    change(api)
    reached = at_rest(api)
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    api.delete("configmaps", "config")
    kubelet.stop()
    return reached


def quiet(view: View, seconds: float = 2.0) -> None:
    """Wait until it has written nothing for a while."""
    seen, since = view.writes(), time.monotonic()

    def rests() -> bool:
        nonlocal seen, since
        if view.writes() != seen:
            seen, since = view.writes(), time.monotonic()
        return time.monotonic() - since > seconds

    eventually(rests, "no more writes")


@pytest.mark.usefixtures("instance")
def test_a_start_before_an_api_server_that_lags_behind_undoes_nothing(
    api: Api, operator: Operator, view: View, control_plane: Any, expected: tuple[Any, ...]
) -> None:
    """In the past that it is shown the first configuration is to run, and the instance has another image."""
    past = int(api.call("GET", api.path("secondaryschedulers"))["metadata"]["resourceVersion"])
    since = lines(control_plane)
    change(api)
    assert at_rest(api) == expected
    operator.process.kill()  # type: ignore[union-attr]
    operator.process.wait()  # type: ignore[union-attr]
    present = Hold()
    with view.proxy.broken_by(Rule(past_lists(past), **LISTED), Rule(present, **WATCHED)):
        operator.start()
        operator.wait_until_leading()
        quiet(view)
        during = state(api)
    view.call(present.release)
    assert during == expected
    assert at_rest(api) == expected
    judge(control_plane, api, since)


@pytest.mark.usefixtures("instance")
def test_states_that_it_never_sees_make_no_difference(
    api: Api, view: View, control_plane: Any, expected: tuple[Any, ...]
) -> None:
    """Between two lists the configuration is another, then gone, then the last one; its Service goes."""
    since = lines(control_plane)
    sees = asyncio.Event()
    answered_410 = end_watch_with(410)

    async def blind(exchange: Exchange) -> Any:
        await sees.wait()
        return await answered_410(exchange)

    rule = view.proxy.add(Rule(blind, **WATCHED))
    view.call(view.proxy.reset_all)
    eventually(lambda: rule.used >= 6, "watches are held")
    api.patch("configmaps", "config", {"data": {"config.yaml": OTHER_CONFIG.replace("weight: 5", "weight: 7")}})
    api.delete("configmaps", "config")
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    change(api)
    view.proxy.remove(rule)
    view.call(sees.set)
    assert at_rest(api) == expected
    judge(control_plane, api, since)


def test_no_secret_was_read_but_those_it_is_told(view: View, operator: Operator) -> None:
    read = view.secrets_read()
    assert read <= set(OperatorOptions.secrets), read


def test_the_log_has_no_traceback(operator: Operator, tmp_path: Path) -> None:
    assert not [line for line in operator.log_lines() if "Traceback" in json.dumps(line)]
