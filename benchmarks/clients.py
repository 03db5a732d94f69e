"""What a Kubernetes client costs per pod listed and per Binding written: processor time of the client alone.

`python -m benchmarks.clients` measures this project's client beside those that are installed of `kubernetes`,
`kubernetes_asyncio`, `lightkube` and `kr8s`; docs/adr/0003-own-kubernetes-client.md has the figures. Each client runs
in a process of its own against a server that answers from memory, over plain HTTP, so that neither the API server nor
TLS is counted. Processor time varies less than rates do while other work runs on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CLIENTS = ("ours", "kubernetes", "kubernetes_asyncio", "lightkube", "kr8s")
PODS, BINDINGS, AT_ONCE = 5000, 1000, 16
ROOT = Path(__file__).resolve().parent.parent


def api_pod(number: int) -> dict[str, Any]:
    """A pod as a ReplicaSet makes it, with a status and managedFields; about 6 KB."""
    name = f"web-7dbf868c77-{number:05d}"
    fields: dict[str, Any] = {f"f:field-{index}": {"f:nested": {}} for index in range(60)}
    container = {
        "name": "web",
        "image": "registry.example.com/shop/web:1",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "env": [{"name": f"VARIABLE_{index}", "value": "some value of usual length"} for index in range(10)],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7dbf868c77"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}],
        },
        "spec": {
            "schedulerName": "secondary-scheduler",
            "nodeName": f"node-{number % 500}",
            "containers": [container],
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.1.0.1", "conditions": conditions},
    }


def serve() -> None:
    """Answer lists of pods and Bindings from memory; prints the port."""
    from aiohttp import web

    pods = [json.dumps(api_pod(number)).encode() for number in range(PODS)]
    created = json.dumps({"apiVersion": "v1", "kind": "Status", "status": "Success", "code": 201}).encode()

    def page(start: int, limit: int) -> bytes:
        end = min(start + limit, PODS)
        metadata = json.dumps({"resourceVersion": "9999", "continue": str(end) if end < PODS else ""}).encode()
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":' + metadata + b',"items":['
        return head + b",".join(pods[start:end]) + b"]}"

    async def answer_list(request: web.Request) -> web.Response:
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or PODS)
        return web.Response(body=page(start, limit), content_type="application/json")

    async def answer_binding(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=201, body=created, content_type="application/json")

    async def answer_version(request: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "34", "gitVersion": "v1.34.4"})

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/version/", answer_version)
        app.router.add_get("/version", answer_version)
        app.router.add_get("/api/v1/pods", answer_list)
        app.router.add_post("/api/v1/namespaces/{namespace}/pods/{name}/binding", answer_binding)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


def binding(number: int) -> dict[str, Any]:
    """The body of a Binding."""
    metadata = {"name": f"pod-{number}", "namespace": "shop", "uid": f"uid-{number}"}
    target = {"kind": "Node", "name": "node-1"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


async def at_once(bind: Callable[[int], Awaitable[object]]) -> None:
    """Bind `BINDINGS` pods, `AT_ONCE` at a time."""
    numbers = iter(range(BINDINGS))

    async def worker() -> None:
        for number in numbers:
            await bind(number)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


class Meter:
    """Processor time of this process, in microseconds per item."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {"import_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}

    @contextmanager
    def measure(self, name: str, items: int) -> Iterator[None]:
        """Measure a block that handles so many items."""
        before = time.process_time()
        yield
        self.figures[name] = (time.process_time() - before) / items * 1e6


async def run_ours(server: str, kubeconfig: str) -> dict[str, float]:
    """This project's client: lists are decoded into the fields that a scheduler reads."""
    from scheduler.kube.client import ClientConfig, KubeClient
    from scheduler.kube.model import PODS as CODEC

    meter = Meter()
    async with KubeClient(ClientConfig(server=server), qps=1e6, burst=10**6) as client:
        with meter.measure("list_us_per_pod", PODS):
            token, count = "", 0
            while token or not count:
                parameters: dict[str, str | int] = {"limit": 500, **({"continue": token} if token else {})}
                decoded = CODEC.decode_list(await client.get("/api/v1/pods", parameters))
                count, token = count + len(decoded.items), decoded.continue_token
        assert count == PODS
        with meter.measure("bind_us", BINDINGS):
            await at_once(lambda n: client.post(f"/api/v1/namespaces/shop/pods/pod-{n}/binding", binding(n)))
    return meter.figures


async def run_kubernetes(server: str, kubeconfig: str) -> dict[str, float]:
    """The official client: synchronous, so one Binding after another."""
    from kubernetes import client, config

    meter = Meter()
    config.load_kube_config(kubeconfig)
    core = client.CoreV1Api()
    with meter.measure("list_us_per_pod", PODS):
        answer = core.list_pod_for_all_namespaces(limit=500)
        count = len(answer.items)
        while answer.metadata._continue:
            answer = core.list_pod_for_all_namespaces(limit=500, _continue=answer.metadata._continue)
            count += len(answer.items)
    assert count == PODS
    with meter.measure("bind_us", BINDINGS):
        for number in range(BINDINGS):
            core.create_namespaced_pod_binding(f"pod-{number}", "shop", binding(number), _preload_content=False)
    return meter.figures


async def run_kubernetes_asyncio(server: str, kubeconfig: str) -> dict[str, float]:
    """The official client's generated code over aiohttp."""
    from kubernetes_asyncio import client, config

    meter = Meter()
    await config.load_kube_config(kubeconfig)
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        with meter.measure("list_us_per_pod", PODS):
            answer = await core.list_pod_for_all_namespaces(limit=500)
            count = len(answer.items)
            while answer.metadata._continue:
                answer = await core.list_pod_for_all_namespaces(limit=500, _continue=answer.metadata._continue)
                count += len(answer.items)
        assert count == PODS

        async def bind(number: int) -> None:
            response = await core.create_namespaced_pod_binding(
                f"pod-{number}", "shop", binding(number), _preload_content=False
            )
            await response.read()

        with meter.measure("bind_us", BINDINGS):
            await at_once(bind)
    return meter.figures


async def run_lightkube(server: str, kubeconfig: str) -> dict[str, float]:
    """lightkube: typed objects over httpx."""
    import msgspec
    from lightkube import AsyncClient, KubeConfig
    from lightkube.models.core_v1 import ObjectReference
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import Pod

    meter = Meter()
    client = AsyncClient(config=KubeConfig.from_file(kubeconfig))
    with meter.measure("list_us_per_pod", PODS):
        count = 0
        async for pod in client.list(Pod, namespace="*", chunk_size=500):
            count += bool(pod.metadata)
    assert count == PODS
    target = ObjectReference(kind="Node", name="node-1")

    async def bind(number: int) -> None:
        body = Pod.Binding(target=target, metadata=ObjectMeta(name=f"pod-{number}", namespace="shop"))
        # The API server answers a Binding with a Status, which lightkube decodes as a Binding and refuses.
        with suppress(msgspec.ValidationError):
            await client.create(body, f"pod-{number}", namespace="shop")

    with meter.measure("bind_us", BINDINGS):
        await at_once(bind)
    await client.close()
    return meter.figures


async def run_kr8s(server: str, kubeconfig: str) -> dict[str, float]:
    """kr8s: dictionaries in objects over httpx. It asks for 100 objects a page, the others for 500."""
    import kr8s.asyncio
    from kr8s.asyncio.objects import Pod

    meter = Meter()
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
    with meter.measure("list_us_per_pod", PODS):
        count = 0
        async for pod in api.get(Pod, namespace=kr8s.ALL):
            count += bool(pod.name)
    assert count == PODS

    async def bind(number: int) -> None:
        body = json.dumps(binding(number))
        async with api.call_api("POST", namespace="shop", url=f"pods/pod-{number}/binding", data=body):
            pass

    with meter.measure("bind_us", BINDINGS):
        await at_once(bind)
    return meter.figures


KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "SERVER"}}]
users: [{name: nobody, user: {token: none}}]
contexts: [{name: local, context: {cluster: local, user: nobody}}]
current-context: local
"""


def run_one(name: str, server: str, root: Path = ROOT) -> dict[str, float] | None:
    """Run a client of a checkout in a process of its own; None where it is not installed."""
    child = [sys.executable, "-m", "benchmarks.clients", "--client", name, "--server", server]
    answer = subprocess.run(child, capture_output=True, text=True, check=False, cwd=root)
    if "ModuleNotFoundError" in answer.stderr:
        return None
    if answer.returncode:
        raise SystemExit(f"{name}: {answer.stderr}")
    figures: dict[str, float] = json.loads(answer.stdout)
    return figures


def run_child(name: str, server: str) -> None:
    """Measure one client and print its figures."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.replace("SERVER", server))
        figures = asyncio.run(globals()[f"run_{name}"](server, str(kubeconfig)))
    print(json.dumps(figures))


def main() -> int:
    """Run all clients in turn, several rounds, and print medians with their range."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="ours and that of this checkout, and no other")
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    if options.client:
        run_child(options.client, options.server)
        return 0
    command = [sys.executable, "-m", "benchmarks.clients", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = f"http://127.0.0.1:{server.stdout.readline().strip()}"
            rounds: dict[str, list[dict[str, float]]] = {}
            roots = dict.fromkeys(CLIENTS, ROOT)
            if options.before is not None:
                roots = {"ours": ROOT, "before": options.before.resolve()}
            for _ in range(options.rounds):
                for name, root in roots.items():
                    figures = run_one("ours" if name == "before" else name, address, root)
                    if figures is not None:
                        rounds.setdefault(name, []).append(figures)
        finally:
            server.terminate()
    for name, results in rounds.items():
        columns = [
            f"{key} {statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"
            for key in ("list_us_per_pod", "bind_us", "import_rss_mib")
            if (values := [result[key] for result in results])
        ]
        print(f"{name:20}", *columns, sep="  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
