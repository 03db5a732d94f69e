"""The reflector and the client against a real API server."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.kube.client import (
    AlreadyExists,
    ClientConfig,
    Conflict,
    Forbidden,
    KubeClient,
    NotFound,
    Reflector,
    ReflectorTiming,
    Store,
    Unauthorized,
    api_path,
    object_meta,
    unchanged,
)
from scheduler.kube.model import (
    PODS,
    DecodeError,
    EventType,
    ObjectMeta,
    Pod,
    ResourceVersion,
    Unstructured,
    UnstructuredCodec,
    decode_pod,
)
from tests.support.waiting import eventually_on_loop

pytestmark = pytest.mark.integration

ANY = UnstructuredCodec()
SHORT_WATCHES = ReflectorTiming(backoff_first=0.05, backoff_most=0.5, watch_least=1.0, watch_most=2.0)


class Mirror:
    def __init__(self) -> None:
        self.store: Store[Unstructured] = Store(object_meta)
        self.deleted: list[str] = []
        self.invalids: list[str] = []

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        self.deleted += [item.metadata.name for item in self.store.replace(items).deleted]

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        self.deleted += [item.metadata.name for item in self.store.apply(events).deleted]

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        self.invalids.append(f"{metadata.name}: {error}")

    @property
    def versions(self) -> dict[str, str]:
        return {item.metadata.name: item.metadata.resource_version for item in self.store}


@asynccontextmanager
async def reflecting(
    client: KubeClient, path: str, timing: ReflectorTiming | None = None, **selectors: str
) -> AsyncIterator[tuple[Mirror, Reflector[Unstructured, Unstructured]]]:
    mirror = Mirror()
    reflector = Reflector(client, path, ANY, mirror, unchanged, timing=timing, **selectors)
    task = asyncio.create_task(reflector.run())
    try:
        yield mirror, reflector
    finally:
        task.cancel()


async def listed(client: KubeClient, path: str) -> dict[str, str]:
    page = ANY.decode_list(await client.get(path))
    return {item.metadata.name: item.metadata.resource_version for item in page.items}


async def test_churn_over_many_short_watches_matches_the_server_after_one_list(
    client: KubeClient, namespace: str
) -> None:
    path = api_path("v1", "configmaps", namespace=namespace)
    generator = random.Random(7)

    async def churn(worker: int) -> None:
        for step in range(60):
            name = f"c{worker}-{generator.randrange(6)}"
            item_path = api_path("v1", "configmaps", namespace=namespace, name=name)
            try:
                if generator.random() < 0.3:
                    await client.delete(item_path)
                else:
                    await client.patch(item_path, {"data": {"step": str(step)}})
            except NotFound:
                await client.post(path, {"metadata": {"name": name}})
            await asyncio.sleep(0.05)

    async with reflecting(client, path, SHORT_WATCHES) as (mirror, reflector):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        await asyncio.gather(*(churn(worker) for worker in range(4)))
        truth = await listed(client, path)
        await eventually_on_loop(lambda: mirror.versions == truth)
        assert reflector.state.lists == 1
        assert reflector.state.watches >= 3
        assert reflector.state.events > 100
        assert mirror.invalids == []


async def test_a_version_that_is_too_old_leads_to_a_new_list_that_infers_the_deletion(
    client: KubeClient, namespace: str
) -> None:
    # The server's memory of a kind begins when the kind does, so version 1 is too old for a new one.
    group = f"{namespace}.example.com"
    names = {"plural": "things", "kind": "Thing"}
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": anything}
    crds = "apiextensions.k8s.io/v1"
    await client.post(
        api_path(crds, "customresourcedefinitions"),
        {
            "metadata": {"name": f"things.{group}"},
            "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
        },
    )
    path = api_path(f"{group}/v1", "things", namespace=namespace)
    mirror = Mirror()
    reflector = Reflector(client, path, ANY, mirror, unchanged, timing=SHORT_WATCHES)
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(reflector.synced.wait(), 20)
    for name in ("gone", "kept"):
        await client.post(path, {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}})
    await eventually_on_loop(lambda: set(mirror.versions) == {"gone", "kept"})
    task.cancel()
    await client.delete(api_path(f"{group}/v1", "things", namespace=namespace, name="gone"))

    before = (reflector.state.lists, reflector.state.watches)
    reflector._version = ResourceVersion("1")
    task = asyncio.create_task(reflector.run())
    await eventually_on_loop(lambda: set(mirror.versions) == {"kept"})
    assert mirror.deleted == ["gone"]
    assert (reflector.state.lists - before[0], reflector.state.watches - before[1]) in {(1, 1), (1, 2)}
    task.cancel()
    await client.delete(api_path(crds, "customresourcedefinitions", name=f"things.{group}"))


async def test_a_long_list_comes_in_pages_and_selectors_narrow_it(client: KubeClient, namespace: str) -> None:
    path = api_path("v1", "configmaps", namespace=namespace)
    gate = asyncio.Semaphore(32)

    async def create(number: int) -> None:
        async with gate:
            labels = {"part": "ten" if number % 10 == 0 else "rest"}
            await client.post(path, {"metadata": {"name": f"c{number}", "labels": labels}})

    await asyncio.gather(*(create(number) for number in range(1100)))
    async with (
        reflecting(client, path) as (everything, first),
        reflecting(client, path, label_selector="part=ten") as (narrowed, second),
        reflecting(client, path, field_selector="metadata.name=c7") as (single, third),
    ):
        for reflector in (first, second, third):
            await asyncio.wait_for(reflector.synced.wait(), 20)
        assert {f"c{number}" for number in range(1100)} <= set(everything.versions)
        assert len(narrowed.versions) == 110
        assert set(single.versions) == {"c7"}
        # An object that no longer matches leaves the selection as a deletion.
        await client.patch(
            api_path("v1", "configmaps", namespace=namespace, name="c0"), {"metadata": {"labels": {"part": "rest"}}}
        )
        await eventually_on_loop(lambda: narrowed.deleted == ["c0"])


async def test_a_reflector_without_permission_waits_for_it(
    client: KubeClient, config: ClientConfig, namespace: str, tmp_path: Path
) -> None:
    await client.post(api_path("v1", "serviceaccounts", namespace=namespace), {"metadata": {"name": "reader"}})
    request = api_path("v1", "serviceaccounts", namespace=namespace, name="reader", subresource="token")
    answered = json.loads(await client.post(request, {"spec": {"expirationSeconds": 3600}}))
    token = tmp_path / "token"
    token.write_text("not-a-token")
    limited = replace(config, cert_file=None, key_file=None, cert_data=None, key_data=None, token_file=token)
    path = api_path("v1", "configmaps", namespace=namespace)
    async with KubeClient(limited, qps=0) as reader, reflecting(reader, path, SHORT_WATCHES) as (_, reflector):
        await eventually_on_loop(lambda: isinstance(reflector.state.error, Unauthorized))
        token.write_text(answered["status"]["token"])
        await eventually_on_loop(lambda: isinstance(reflector.state.error, Forbidden))
        message = str(reflector.state.error)
        assert 'cannot list resource "configmaps"' in message
        assert f"{namespace}:reader" in message
        assert not reflector.synced.is_set()
        rbac = "rbac.authorization.k8s.io"
        await client.post(
            api_path(f"{rbac}/v1", "rolebindings", namespace=namespace),
            {
                "metadata": {"name": "reader"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
            },
        )
        await asyncio.wait_for(reflector.synced.wait(), 10)


async def test_pods_as_the_server_sends_them_decode_without_loss_of_what_matters(
    client: KubeClient, namespace: str
) -> None:
    path = api_path("v1", "pods", namespace=namespace)
    await client.post(api_path("v1", "serviceaccounts", namespace=namespace), {"metadata": {"name": "runner"}})
    created = decode_pod(
        await client.post(
            path,
            {
                "metadata": {"generateName": "p-", "labels": {"app": "x"}},
                "spec": {
                    "schedulerName": "nobody",
                    "serviceAccountName": "runner",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "0.5"}}}],
                    "tolerations": [{"operator": "Exists"}],
                },
            },
        )
    )
    assert created.spec.scheduler_name == "nobody"
    assert created.spec.containers[0].resources.requests == {"cpu": "500m"}
    assert (created.spec.priority, created.status.phase, created.status.qos_class) == (0, "Pending", "Burstable")
    page = PODS.decode_list(await client.get(path))
    assert [item.uid for item in page.items] == [created.uid]
    assert page.invalid == []
    assert isinstance(page.items[0], Pod)


async def test_failures_of_the_server_have_their_types(client: KubeClient, namespace: str) -> None:
    path = api_path("v1", "configmaps", namespace=namespace)
    created = json.loads(await client.post(path, {"metadata": {"name": "a"}}))
    with pytest.raises(AlreadyExists):
        await client.post(path, {"metadata": {"name": "a"}})
    item_path = api_path("v1", "configmaps", namespace=namespace, name="a")
    await client.patch(item_path, {"data": {"x": "y"}})
    with pytest.raises(Conflict):
        await client.put(item_path, created)
    with pytest.raises(Conflict):
        await client.delete(item_path, {"preconditions": {"uid": "another"}})
    with pytest.raises(NotFound):
        await client.get(api_path("v1", "pods", namespace=namespace, name="a"))
