"""Faults of what the scheduler is told and of what stores it: 6, 14, 16, 17, 35, 48."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from devcluster import pki
from tests.conformance.apiclient import ApiError
from tests.faults import etcd, oracle
from tests.faults.oracle import Violation
from tests.faults.plane import SECOND_API_SERVER
from tests.faults.proxy import Exchange, Hold, Proxy, Rule, answer, reset
from tests.faults.scenarios.registry import scenario
from tests.faults.schedulers import OURS, Scheduler
from tests.faults.stage import CANARY, GANGS, GROUP_LABEL, Stage, eventually, names, prepare
from tests.faults.tcp import TcpProxy

Json = dict[str, Any]
_GROUPS = "podgroups.scheduling.x-k8s.io"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


# 6 -------------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _second_api_server(stage: Stage) -> AsyncIterator[TcpProxy]:
    """Another API server on the same etcd, and the wire between the two."""
    async with TcpProxy(stage.plane.ports["etcd"]) as wire:
        await asyncio.to_thread(stage.plane.start, SECOND_API_SERVER, wire.port)
        try:
            yield wire
        finally:
            wire.resume()
            await asyncio.to_thread(stage.plane.kill, SECOND_API_SERVER)


@scenario(6, "at an API server that lags behind, it forgets no pod and no node that it knew", disruptive=True)
async def nothing_forgotten_at_a_stale_api_server(stage: Stage) -> None:
    async with _second_api_server(stage) as wire:
        scheduler = await stage.scheduler()
        await stage.nodes("n1", "n2", cpu="1")
        await stage.pods("first", cpu="700m")
        await stage.bound()
        wire.stall()
        # What the second one does not know: a node is full, another pod came and went.
        await stage.pods("second", cpu="700m")
        await stage.bound()
        await stage.nodes("n3", cpu="1")
        await stage.pods("third", cpu="700m")
        await stage.bound()
        before = await scheduler.cache() if stage.kind == OURS else {}
        scheduler.proxy.upstream = stage.plane.second_api_server
        scheduler.proxy.reset_all()
        await stage.pods(*names("late", 2), cpu="200m")
        await asyncio.sleep(6)
        assert scheduler.alive, scheduler.log[-1500:]
        if stage.kind == OURS:
            now = await scheduler.cache()
            lost = {uid for uid, node in before["pods"].items() if now["pods"].get(uid) != node}
            stage.figures["pods_forgotten"] = len(lost)
            assert not lost, "pods that were bound disappeared from the cache"
            assert set(before["nodes"]) <= set(now["nodes"]), "nodes disappeared from the cache"
        wire.resume()
        stage.figures["recover_seconds"] = await stage.bound(within=60)
        await stage.pods("after", cpu="100m")
        await stage.bound("after")
        scheduler.proxy.upstream = stage.plane.api_server
        scheduler.proxy.reset_all()
        # Its end is judged with the first again, which is where it stays.
        await stage.settle()


# 16 ------------------------------------------------------------------------------------------------------------------


@scenario(16, "a new serving certificate is shown without a restart, and a broken one changes nothing")
async def serving_certificate_rotated(stage: Stage) -> None:
    files = stage.directory / "serving.crt", stage.directory / "serving.key"

    async def write(authority: str) -> bytes:
        made_by = pki.CertificateAuthority(authority)
        pair = made_by.server("scheduler", [], ["127.0.0.1"])
        await asyncio.to_thread(_write_pair, files, pair)
        return pair.certificate

    first = await write("first")
    flags = (f"--tls-cert-file={files[0]}", f"--tls-private-key-file={files[1]}")
    scheduler = await stage.scheduler(flags=flags)

    async def shown() -> str:
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", scheduler.port), timeout=5)

    def same(shown_now: str, written: bytes) -> bool:
        return ssl.PEM_cert_to_DER_cert(shown_now) == ssl.PEM_cert_to_DER_cert(_leaf(written))

    await scheduler.until(scheduler.serves, 30)
    assert same(await shown(), first)
    second = await write("second")

    async def second_is_shown() -> bool:
        return same(await shown(), second)

    stage.figures["recover_seconds"] = await eventually(second_is_shown, 90)
    await asyncio.to_thread(files[1].write_text, "half a fi")
    await asyncio.sleep(2)
    assert same(await shown(), second), "a broken file replaced a certificate that works"
    await stage.nodes("n1", cpu="1")
    await stage.pods("p")
    await stage.bound()


def _write_pair(files: tuple[Path, Path], pair: pki.KeyPair) -> None:
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)


def _leaf(chain: bytes) -> str:
    end = "-----END CERTIFICATE-----"
    return chain.decode().split(end)[0] + end + "\n"


class _Front:
    """An API server behind TLS, whose authority may change."""

    def __init__(self, directory: Path) -> None:
        self.bundle = directory / "ca.crt"
        self._chain = directory / "api.crt", directory / "api.key"
        self.shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.rotate("first")

    def rotate(self, name: str) -> None:
        """Show a certificate of another authority from now on, and write that authority's."""
        authority = pki.CertificateAuthority(name)
        _write_pair(self._chain, authority.server("kube-apiserver", [], ["127.0.0.1"]))
        self.shown.load_cert_chain(*self._chain)
        self.bundle.write_bytes(authority.pair.certificate)


@contextlib.asynccontextmanager
async def _behind_tls(
    stage: Stage, clients: Sequence[pki.CertificateAuthority] = (), **user: str
) -> AsyncIterator[tuple[Scheduler, Proxy, TcpProxy, _Front]]:
    """A scheduler that speaks TLS to its proxy: client-go shows no token where there is none. Certificates are asked
    for where authorities of `clients` are given."""
    front = await asyncio.to_thread(_Front, stage.directory)
    if clients:
        front.shown.verify_mode = ssl.CERT_OPTIONAL
        front.shown.load_verify_locations(cadata="".join(each.pair.certificate.decode() for each in clients))
    async with (
        Proxy.of(stage.plane, user=f"{stage.namespace}-a") as proxy,
        TcpProxy(int(proxy.url.rsplit(":", 1)[1]), tls=front.shown) as wire,
    ):
        kubeconfig = stage.directory / "tls.kubeconfig"
        document = yaml.safe_load((await asyncio.to_thread(proxy.write_kubeconfig, kubeconfig, **user)).read_text())
        entry = {"server": f"https://127.0.0.1:{wire.port}", "certificate-authority": str(front.bundle)}
        document["clusters"][0]["cluster"] = entry
        await asyncio.to_thread(kubeconfig.write_text, yaml.safe_dump(document))
        connection = {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 500}
        scheduler = await stage.scheduler("a", top={"clientConnection": connection})
        yield scheduler, proxy, wire, front
        assert scheduler.alive, scheduler.log[-1500:]
        await stage.settle()
        code = await scheduler.stop()
        assert code == 0 or stage.kind != OURS, f"exit code {code}"


@scenario(16, "a new authority of the API server is taken from its file, without a restart")
async def authority_rotated(stage: Stage) -> None:
    async with _behind_tls(stage) as (_, _, wire, front):
        await stage.nodes("n1", cpu="4")
        await stage.pods("before")
        await stage.bound()
        await asyncio.to_thread(front.rotate, "second")
        wire.reset_all()
        await stage.pods("after")
        stage.figures["recover_seconds"] = await stage.bound("after", within=60)


# 14 ------------------------------------------------------------------------------------------------------------------


@scenario(14, "a rotated token is read again")
async def token_rotates(stage: Stage) -> None:
    token = stage.directory / "token"
    await asyncio.to_thread(token.write_text, "first")
    async with _behind_tls(stage, tokenFile=str(token)) as (_, proxy, _, _):

        async def only_second(exchange: Exchange) -> web.StreamResponse:
            if exchange.request.headers.get("Authorization") == "Bearer second":
                return await exchange.forward()
            return await answer(401, "Unauthorized", reason="Unauthorized")(exchange)

        await stage.nodes("n1", cpu="4")
        await stage.pods("before")
        await stage.bound()
        proxy.add(Rule(only_second))
        proxy.reset_all()
        await stage.pods("meanwhile")
        await eventually(lambda: sum(each.status == 401 for each in proxy.exchanges) > 1)
        await asyncio.to_thread(token.write_text, "second")
        # client-go reads the file once a minute.
        stage.within = 120
        stage.figures["recover_seconds"] = await stage.bound("meanwhile", within=100)


@scenario(14, "a rotated client certificate is taken from its files, without a restart")
async def client_certificate_rotates(stage: Stage) -> None:
    files = stage.directory / "client.crt", stage.directory / "client.key"
    authorities = [pki.CertificateAuthority(name) for name in ("first", "second")]
    first, second = (each.client("scheduler") for each in authorities)
    await asyncio.to_thread(_write_pair, files, first)
    user = {"client-certificate": str(files[0]), "client-key": str(files[1])}
    async with _behind_tls(stage, authorities, **user) as (_, proxy, wire, _):
        valid = ssl.PEM_cert_to_DER_cert(first.certificate.decode())

        async def only_valid(exchange: Exchange) -> web.StreamResponse:
            # As the API server: whoever shows another certificate has a connection, and is nobody.
            assert exchange.request.transport is not None
            port = exchange.request.transport.get_extra_info("peername")[1]
            if wire.clients[port] == valid:
                return await exchange.forward()
            return await answer(401, "Unauthorized", reason="Unauthorized")(exchange)

        proxy.add(Rule(only_valid))
        proxy.reset_all()
        await stage.nodes("n1", cpu="4")
        await stage.pods("before")
        await stage.bound()
        valid = ssl.PEM_cert_to_DER_cert(second.certificate.decode())
        await stage.pods("meanwhile")
        await eventually(lambda: sum(each.status == 401 for each in proxy.exchanges) > 1)
        # Whoever looks between the two writes finds a pair that does not match.
        await asyncio.to_thread(files[0].write_bytes, second.certificate)
        await asyncio.sleep(1.5)
        await asyncio.to_thread(files[1].write_bytes, second.key)
        # client-go looks every five minutes, and when it opens a connection.
        stage.within = 400
        stage.figures["recover_seconds"] = await stage.bound("meanwhile", within=330)


# 17 ------------------------------------------------------------------------------------------------------------------


@scenario(17, "while etcd takes no write it backs off, and after the alarm is lifted all is placed", disruptive=True)
async def etcd_out_of_space(stage: Stage) -> None:
    leader, follower = await stage.pair()
    await stage.nodes("n1", "n2", cpu="4")
    await stage.pods("before")
    await stage.bound()
    # Bindings are under way when the alarm comes.
    hold = Hold()
    leader.proxy.add(Rule(hold, verb="create", resource="pods/binding"))
    await stage.pods(*names("p", 8), cpu="300m")
    await hold.first()
    await asyncio.to_thread(etcd.run_out_of_space, stage.plane.etcd)
    since = time.monotonic()
    hold.release()
    try:
        await asyncio.sleep(10)
        seconds = time.monotonic() - since
        stage.figures["requests_per_second"] = sum(each.proxy.count(since=since) for each in stage.schedulers) / seconds
        bindings = leader.proxy.count("create", "pods/binding", since=since)
        stage.figures["bindings_tried"] = bindings
        assert stage.figures["requests_per_second"] < 40, "a busy loop"
    finally:
        await asyncio.to_thread(etcd.disarm, stage.plane.etcd)
    # A leader that cannot renew its Lease ends; in a cluster it is started again.
    ended = [each for each in (leader, follower) if not each.alive]
    stage.figures["ended"] = len(ended)
    for each in ended:
        await each.start()
    await eventually(lambda: any(each.alive and each.leads for each in stage.schedulers), 30)
    stage.figures["recover_seconds"] = await stage.bound(within=40)


# 35 ------------------------------------------------------------------------------------------------------------------


async def _make_group(stage: Stage, name: str, least: int) -> None:
    version = "scheduling.x-k8s.io/v1alpha1"
    metadata = {"name": name, "namespace": stage.namespace}
    await stage.api.create(
        {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": least}}
    )


async def _without_groups(stage: Stage) -> None:
    """Take the kind away, and wait until it is gone."""
    await stage.api.call("DELETE", f"{_CRDS}/{_GROUPS}")

    async def gone() -> bool:
        with contextlib.suppress(ApiError):
            await stage.api.call("GET", f"{_CRDS}/{_GROUPS}")
            return False
        return True

    await eventually(gone)


@scenario(35, "without the PodGroup kind it places single pods; gangs follow when the kind comes", disruptive=True)
async def group_kind_absent_at_start(stage: Stage) -> None:
    await _without_groups(stage)
    try:
        scheduler = await stage.scheduler(profile=GANGS, ready=False)
        await stage.nodes("n1", "n2", cpu="4")
        await stage.pods(*names("gang", 4), labels={GROUP_LABEL: "gang"})
        await stage.pods("single")
        stage.figures["single_seconds"] = await stage.bound("single", within=40)
        assert scheduler.alive, scheduler.log[-1500:]
    finally:
        await prepare(stage.plane)
    await _make_group(stage, "gang", 4)
    stage.figures["recover_seconds"] = await stage.bound(within=60)


@scenario(35, "when the PodGroup kind is taken away, others flow, and gangs go on when it is back", disruptive=True)
async def group_kind_removed(stage: Stage) -> None:
    scheduler = await stage.scheduler(profile=GANGS)
    await stage.nodes("n1", "n2", cpu="4")
    await stage.gang("first", 3)
    await stage.bound()
    await _without_groups(stage)
    try:
        await asyncio.sleep(2)
        await stage.pods("single")
        stage.figures["single_seconds"] = await stage.bound("single")
        since = time.monotonic()
        await asyncio.sleep(5)
        stage.figures["requests_per_second"] = scheduler.proxy.count(since=since) / 5
        assert stage.figures["requests_per_second"] < 20, "the missing kind is asked for again and again"
        assert scheduler.alive, scheduler.log[-1500:]
    finally:
        await prepare(stage.plane)
    await stage.gang("second", 3)
    stage.figures["recover_seconds"] = await stage.bound(within=60)


# 48 ------------------------------------------------------------------------------------------------------------------


@scenario(
    48, "a secret in every place for one stands in no log, Event, Lease, metric, condition or configuration", quick=True
)
async def canary_in_every_output(stage: Stage) -> None:
    token = stage.directory / "token"
    await asyncio.to_thread(token.write_text, CANARY)
    provider = {"type": "Prometheus", "address": "https://127.0.0.1:9", "token": CANARY}
    arguments = {"metricProvider": provider}
    profile = {
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
        "pluginConfig": [{"name": "TargetLoadPacking", "args": arguments}],
    }
    stage.expected.lease = ("kube-system", "faults")
    flags = ("--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/configz",)
    scheduler = await stage.scheduler(leader_election=True, profile=profile, flags=flags)
    await scheduler.until(lambda: scheduler.leads, 30)
    # Every error path has its say: the API server refuses, resets, and the source of load is away.
    broken = Rule(reset(), verb="create", resource="pods/binding", times=2)
    scheduler.proxy.add(broken)
    await stage.nodes("n1", cpu="1")
    await stage.pods("p", "too-large", cpu="700m")
    stage.expected.waiting = frozenset({"p", "too-large"})
    await eventually(lambda: broken.used >= 2)
    scheduler.proxy.reset_all()

    async def one_bound() -> bool:
        return any((await stage.where()).values())

    stage.figures["recover_seconds"] = await eventually(one_bound)
    paths = ("/configz", "/metrics", "/readyz?verbose", "/livez?verbose", "/healthz", "/version", "/statusz", "/flagz")
    outputs: dict[str, str] = {}
    for path in paths:
        status, outputs[path] = await scheduler.page(path)
        if path == "/configz":
            assert status == 200, f"/configz answers {status}: {outputs[path][:200]}"
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/faults"
    outputs["Lease"] = json.dumps(await stage.api.call("GET", lease))
    outputs["nodes"] = json.dumps(await stage.api.list_all("Node"))
    assert scheduler.process is not None
    command = Path(f"/proc/{scheduler.process.pid}/cmdline")
    outputs["command line"] = await asyncio.to_thread(command.read_text)
    stage.violations += oracle.secret(CANARY, outputs)
    stage.figures["outputs"] = len(outputs) + 6
    if not outputs["/metrics"]:
        stage.violations.append(Violation("I9", "/metrics is empty"))
