"""A reflector against every way in which a list or a watch can fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from scheduler.kube.client import (
    ClientConfig,
    Expired,
    Forbidden,
    KubeClient,
    KubeError,
    MalformedResponse,
    Reflector,
    ReflectorTiming,
    Store,
    object_meta,
    unchanged,
)
from scheduler.kube.client.http import Params
from scheduler.kube.model import PODS, DecodeError, EventType, ObjectMeta, Pod, ResourceVersion
from tests.support.waiting import eventually_on_loop
from tests.unit.scheduler.kube.fake_api import FakeApi, WatchScript, answer, line, running, status_body

QUICK = ReflectorTiming(
    backoff_first=0.01,
    backoff_most=0.05,
    absent=0.05,
    silence=2.0,
    watch_least=20,
    watch_most=30,
    list_timeout=5,
    refuse_older=0.3,
)


class Mirror:
    """A sink that keeps a Store and records its calls."""

    def __init__(self) -> None:
        self.store: Store[Pod] = Store(object_meta)
        self.replaced: list[ResourceVersion] = []
        self.batches: list[list[tuple[str, str]]] = []
        self.invalids: list[tuple[str, str]] = []
        self.deleted: list[str] = []

    def replace(self, items: Sequence[Pod], resource_version: ResourceVersion) -> None:
        self.replaced.append(resource_version)
        self.deleted += [obj.metadata.name for obj in self.store.replace(items).deleted]

    def apply(self, events: Sequence[tuple[EventType, Pod]]) -> None:
        self.batches.append([(str(kind), obj.metadata.name) for kind, obj in events])
        self.deleted += [obj.metadata.name for obj in self.store.apply(events).deleted]

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        self.invalids.append((metadata.name, str(error)))

    @property
    def names(self) -> set[str]:
        return {obj.metadata.name for obj in self.store}


@asynccontextmanager
async def reflecting(
    api: FakeApi, timing: ReflectorTiming = QUICK, *, optional: bool = False, **selectors: str
) -> AsyncIterator[tuple[Mirror, Reflector[Pod, Pod]]]:
    mirror = Mirror()
    async with KubeClient(ClientConfig(server=api.url), qps=0) as client:
        reflector = Reflector(
            client, "/api/v1/pods", PODS, mirror, unchanged, optional=optional, timing=timing, **selectors
        )
        task = asyncio.create_task(reflector.run())
        try:
            yield mirror, reflector
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with running(FakeApi()) as fake:
        yield fake


def speaking(*parts: bytes, then_hang: bool = False, status: int = 200) -> WatchScript:
    """A watch that says this much and ends, or stays open in silence."""

    async def script(request: web.Request, response: web.StreamResponse) -> None:
        response.set_status(status)
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        if then_hang:
            await asyncio.sleep(3600)

    return script


def cutting(*parts: bytes) -> WatchScript:
    """A watch whose connection is torn after this much."""

    async def script(request: web.Request, response: web.StreamResponse) -> None:
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        assert request.transport is not None
        await asyncio.sleep(0.05)
        request.transport.abort()

    return script


def pod(name: str, version: int) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}}


async def test_a_reflector_lists_then_watches_changes(api: FakeApi) -> None:
    api.put("a")
    async with reflecting(api) as (mirror, reflector):
        await asyncio.wait_for(reflector.synced.wait(), 5)
        await asyncio.wait_for(api.opened.wait(), 5)
        assert mirror.names == {"a"}
        api.put("b")
        api.put("a")
        await eventually_on_loop(lambda: mirror.names == {"a", "b"})
        api.remove("a")
        await eventually_on_loop(lambda: mirror.names == {"b"})
        assert reflector.state.watching
        assert (len(api.lists), len(api.watches)) == (1, 1)


async def test_the_list_is_a_quorum_read_in_pages_and_the_watch_wants_bookmarks(api: FakeApi) -> None:
    for number in range(3001):
        api.put(f"p{number}")
    async with reflecting(api, field_selector="spec.nodeName=", label_selector="a=b") as (mirror, reflector):
        await asyncio.wait_for(reflector.synced.wait(), 10)
        await asyncio.wait_for(api.opened.wait(), 5)
        assert len(mirror.names) == 3001
        assert [request.query.get("continue") for request in api.lists] == [None, "500", "2500"]
        assert [request.query["limit"] for request in api.lists] == ["500", "2000", "2000"]
        assert not any("resourceVersion" in request.query for request in api.lists)
        watch = api.watches[0].query
        assert (watch["allowWatchBookmarks"], watch["resourceVersion"]) == ("true", str(api.version))
        assert 20 <= int(watch["timeoutSeconds"]) <= 30
        assert {request.query["fieldSelector"] for request in api.requests} == {"spec.nodeName="}
        assert {request.query["labelSelector"] for request in api.requests} == {"a=b"}


async def test_the_next_page_is_requested_before_one_is_reduced(api: FakeApi) -> None:
    for number in range(501):
        api.put(f"p{number}")
    pages_asked: list[int] = []

    def reduced(pod: Pod) -> Pod:
        pages_asked.append(pages)
        return pod

    pages = 0

    class Counting(KubeClient):
        async def get(self, path: str, params: Params | None = None, *, timeout: float | None = None) -> bytes:
            nonlocal pages
            pages += 1
            return await super().get(path, params, timeout=timeout)

    async with Counting(ClientConfig(server=api.url), qps=0) as client:
        reflector = Reflector(client, "/api/v1/pods", PODS, Mirror(), reduced, timing=QUICK)
        task = asyncio.create_task(reflector.run())
        await asyncio.wait_for(reflector.synced.wait(), 10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert pages_asked == [2] * 501


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b'{"metadata":{"continue":"1","resourceVersion":"7"},"items":7}', id="read ahead"),
        pytest.param(b'{"metadata":{"continue":"1","resourceVersion":"7"},"items":[{}]}', id="requested"),
    ],
)
async def test_a_list_that_fails_cancels_the_page_that_is_under_way(page: bytes) -> None:
    under_way = asyncio.Event()
    cancelled = asyncio.Event()

    class Client(KubeClient):
        async def get(self, path: str, params: Params | None = None, *, timeout: float | None = None) -> bytes:
            if not params or not params.get("continue"):
                return page
            under_way.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            raise AssertionError("nothing sets the event")

    def failing(pod: Pod) -> Pod:
        assert under_way.is_set()
        raise RuntimeError("a transform that fails")

    async with Client(ClientConfig(server="http://localhost")) as client:
        reflector = Reflector(client, "/api/v1/pods", PODS, Mirror(), failing, timing=QUICK)
        with pytest.raises((MalformedResponse, RuntimeError)):
            await reflector.refresh()
        assert under_way.is_set()
        await asyncio.wait_for(cancelled.wait(), 60)


async def test_pages_of_the_first_list_are_handed_on_as_they_come_and_again_with_the_whole(api: FakeApi) -> None:
    for number in range(1001):
        api.put(f"p{number}")
    pages: list[list[Pod]] = []
    mirror = Mirror()
    async with KubeClient(ClientConfig(server=api.url), qps=0) as client:
        reflector = Reflector(client, "/api/v1/pods", PODS, mirror, unchanged, timing=QUICK, on_page=pages.append)
        api.next_watches = [speaking(line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))]
        task = asyncio.create_task(reflector.run())
        await eventually_on_loop(lambda: len(api.lists) == 4)
        await asyncio.wait_for(api.opened.wait(), 5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [len(page) for page in pages] == [500, 501]
    assert {pod.metadata.name for page in pages for pod in page} == mirror.names


async def test_events_that_arrive_together_are_handed_over_together(api: FakeApi) -> None:
    api.next_watches = [speaking(line("ADDED", pod("a", 101)) + line("ADDED", pod("b", 102)), then_hang=True)]
    async with reflecting(api) as (mirror, _):
        await eventually_on_loop(lambda: bool(mirror.batches))
        assert mirror.batches == [[("ADDED", "a"), ("ADDED", "b")]]


async def test_a_watch_that_ends_is_resumed_from_the_last_bookmark_without_a_list(api: FakeApi) -> None:
    bookmark = line("BOOKMARK", {"metadata": {"resourceVersion": "150"}})
    api.next_watches = [speaking(line("ADDED", pod("a", 120)), bookmark)]
    async with reflecting(api) as (mirror, _):
        await asyncio.wait_for(api.opened.wait(), 5)
        assert [request.query["resourceVersion"] for request in api.watches] == ["100", "150"]
        assert len(api.lists) == 1
        assert mirror.names == {"a"}


@pytest.mark.parametrize("form", ["status", "event"])
async def test_410_in_either_form_leads_to_one_new_list_that_infers_deletions(api: FakeApi, form: str) -> None:
    api.put("gone")
    api.put("kept")
    body = status_body(410, "Expired")

    async def expired(request: web.Request, response: web.StreamResponse) -> None:
        api.remove("gone", silently=True)
        response.set_status(410 if form == "status" else 200)
        await response.prepare(request)
        await response.write(body if form == "status" else b'{"type":"ERROR","object":' + body + b"}\n")

    api.next_watches = [expired]
    async with reflecting(api) as (mirror, reflector):
        await asyncio.wait_for(api.opened.wait(), 5)
        assert mirror.names == {"kept"}
        assert mirror.deleted == ["gone"]
        assert (len(api.lists), len(api.watches)) == (2, 2)
        assert reflector.state.error is None


async def test_events_before_an_error_in_the_same_read_are_kept(api: FakeApi) -> None:
    error = b'{"type":"ERROR","object":' + status_body(500, "InternalError") + b"}\n"
    api.next_watches = [speaking(line("ADDED", pod("a", 101)) + error)]
    async with reflecting(api) as (mirror, _):
        await asyncio.wait_for(api.opened.wait(), 5)
        assert mirror.names == {"a"}
        assert api.watches[1].query["resourceVersion"] == "101"


async def test_a_line_cut_in_the_middle_is_dropped_and_comes_again(api: FakeApi) -> None:
    whole = line("ADDED", pod("b", 102))
    api.next_watches = [cutting(line("ADDED", pod("a", 101)), whole[:25]), speaking(whole, then_hang=True)]
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: mirror.names == {"a", "b"})
        assert api.watches[1].query["resourceVersion"] == "101"
        assert mirror.invalids == []
        assert len(api.lists) == 1
        assert reflector.state.watching


async def test_a_line_that_arrives_in_pieces_is_put_together(api: FakeApi) -> None:
    whole = line("ADDED", pod("a", 101)) + line("ADDED", pod("b", 102))

    async def dripping(request: web.Request, response: web.StreamResponse) -> None:
        await response.prepare(request)
        for start in range(0, len(whole), 7):
            await response.write(whole[start : start + 7])
            await asyncio.sleep(0.001)
        await asyncio.sleep(3600)

    api.next_watches = [dripping]
    async with reflecting(api) as (mirror, _):
        await eventually_on_loop(lambda: mirror.names == {"a", "b"})
        assert len(api.watches) == 1


@pytest.mark.real_time
async def test_a_silent_watch_is_resumed_and_relisted_when_it_stays_silent(api: FakeApi) -> None:
    timing = ReflectorTiming(backoff_first=0.01, backoff_most=0.05, silence=0.1, watch_least=20, watch_most=30)
    api.next_watches = [speaking(then_hang=True), speaking(then_hang=True)]
    async with reflecting(api, timing) as (mirror, _):
        await asyncio.wait_for(api.opened.wait(), 5)
        order = ["watch" if "watch" in request.query else "list" for request in api.requests]
        assert order == ["list", "watch", "watch", "list", "watch"]
        api.put("late")
        await eventually_on_loop(lambda: "late" in mirror.names)


@pytest.mark.real_time
async def test_bookmarks_keep_a_quiet_stream_open(api: FakeApi) -> None:
    timing = ReflectorTiming(backoff_first=0.01, backoff_most=0.05, silence=0.3, watch_least=20, watch_most=30)
    async with reflecting(api, timing):
        await asyncio.wait_for(api.opened.wait(), 5)
        for _ in range(6):
            await asyncio.sleep(0.1)
            api.bookmark()
        assert len(api.watches) == 1


async def test_a_list_whose_continue_token_expires_starts_over_and_is_of_one_version(api: FakeApi) -> None:
    for number in range(2600):
        api.put(f"p{number}")

    async def first(request: web.Request) -> web.StreamResponse:
        return api._page(request)

    api.next_lists = [first, answer(410, "Expired")]
    async with reflecting(api) as (mirror, reflector):
        await asyncio.wait_for(reflector.synced.wait(), 5)
        assert [request.query.get("continue") for request in api.lists] == [None, "500", None, "2000"]
        assert len(mirror.names) == 2600
        assert len(mirror.replaced) == 1


async def test_a_stale_list_is_refused_for_a_while_and_then_accepted(api: FakeApi) -> None:
    api.put("now")

    async def older(_: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "50"}, "items": [pod("then", 40)]})

    api.next_watches = [speaking(line("BOOKMARK", {"metadata": {"resourceVersion": "200"}})), speaking(status=410)]
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.resource_version == "200")
        api.next_lists = [older] * 1000
        await eventually_on_loop(lambda: isinstance(reflector.state.error, MalformedResponse))
        assert "gone back in time" in str(reflector.state.error)
        assert mirror.names == {"now"}
        await eventually_on_loop(lambda: mirror.names == {"then"})
        api.next_lists = []


async def test_replayed_events_are_not_applied_twice(api: FakeApi) -> None:
    replay = line("ADDED", pod("a", 101)) + line("MODIFIED", pod("a", 105)) + line("ADDED", pod("a", 101))
    api.next_watches = [speaking(replay, then_hang=True)]
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: bool(mirror.batches))
        assert mirror.batches == [[("ADDED", "a"), ("MODIFIED", "a")]]
        assert reflector.state.resource_version == "105"


async def test_a_bad_object_is_reported_and_the_others_go_on(api: FakeApi) -> None:
    api.put("good")
    api.put("bad", spec={"priority": "high"})
    bad_event = line("MODIFIED", {**pod("worse", 300), "spec": 7})
    api.next_watches = [
        speaking(line("ADDED", pod("x", 200)) + bad_event + line("ADDED", pod("y", 301)), then_hang=True)
    ]
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: mirror.names == {"good", "x", "y"})
        assert [name for name, _ in mirror.invalids] == ["bad", "worse"]
        assert "$.spec.priority" in mirror.invalids[0][1]
        assert reflector.state.invalid == 2
        assert len(api.watches) == 1


async def test_an_object_that_the_transform_refuses_is_an_invalid_one(api: FakeApi) -> None:
    api.put("odd")
    api.put("fine")
    api.next_watches = [speaking(line("ADDED", pod("odd2", 200)) + line("ADDED", pod("fine2", 201)), then_hang=True)]
    mirror = Mirror()

    def picky(pod: Pod) -> Pod:
        if pod.metadata.name.startswith("odd"):
            raise ValueError("too odd")
        return pod

    async with KubeClient(ClientConfig(server=api.url), qps=0) as client:
        task = asyncio.create_task(Reflector(client, "/api/v1/pods", PODS, mirror, picky, timing=QUICK).run())
        await eventually_on_loop(lambda: mirror.names == {"fine", "fine2"})
        assert mirror.invalids == [("odd", "too odd"), ("odd2", "too odd")]
        task.cancel()


async def test_a_missing_permission_is_reported_until_it_is_granted(api: FakeApi) -> None:
    api.put("a")
    api.next_lists = [answer(403, "Forbidden")] * 1000
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: isinstance(reflector.state.error, Forbidden))
        assert not reflector.synced.is_set()
        api.next_lists = []
        await eventually_on_loop(lambda: mirror.names == {"a"})
        await eventually_on_loop(lambda: reflector.state.error is None)


async def test_an_expired_list_without_a_token_is_retried_with_back_off(api: FakeApi) -> None:
    api.next_lists = [answer(410, "Expired")] * 1000
    async with reflecting(api) as (_, reflector):
        await eventually_on_loop(lambda: isinstance(reflector.state.error, Expired) and len(api.lists) > 3)
        api.next_lists = []
        await asyncio.wait_for(reflector.synced.wait(), 5)


@pytest.mark.real_time
async def test_watches_that_end_at_once_back_off(api: FakeApi) -> None:
    api.next_watches = [speaking()] * 1000
    timing = ReflectorTiming(backoff_first=0.1, backoff_most=10, silence=2.0, watch_least=20, watch_most=30)
    async with reflecting(api, timing):
        await asyncio.sleep(1.0)
        assert 2 <= len(api.watches) <= 6
        api.next_watches = []


async def test_an_optional_resource_that_may_not_be_read_counts_as_empty_after_a_while_until_it_may(
    api: FakeApi,
) -> None:
    """A missing rule must not keep everything else waiting for ever."""
    api.next_lists = [answer(403, "Forbidden")] * 1000
    api.put("a")
    timing = msgspec.structs.replace(QUICK, refused=3600.0)
    async with reflecting(api, timing, optional=True) as (mirror, reflector):
        refusals: list[object] = []
        reflector.on_refusal = refusals.append
        await eventually_on_loop(lambda: len(api.lists) > 1)
        assert not reflector.synced.is_set(), "not at once: the rule may be just about to be made"
        msgspec.structs.force_setattr(timing, "refused", 0.0)  # the while is over
        await asyncio.wait_for(reflector.synced.wait(), 60)
        assert reflector.state.unread
        assert isinstance(reflector.refusal, Forbidden)
        assert mirror.names == set()
        api.next_lists = []
        await eventually_on_loop(lambda: mirror.names == {"a"} and reflector.refusal is None)
        assert not reflector.state.unread
        assert [isinstance(refusal, Forbidden) for refusal in refusals] == [True, False]


async def test_an_optional_resource_that_is_not_served_counts_as_empty_until_it_is(api: FakeApi) -> None:
    api.next_lists = [answer(404, "NotFound")] * 3
    api.put("a")
    async with reflecting(api, optional=True) as (mirror, reflector):
        await asyncio.wait_for(reflector.synced.wait(), 2)
        assert reflector.state.absent
        assert mirror.replaced == [ResourceVersion("")]
        await eventually_on_loop(lambda: mirror.names == {"a"})
        assert not reflector.state.absent
        assert reflector.state.error is None


async def test_an_optional_resource_that_is_taken_away_leaves_nothing_behind(api: FakeApi) -> None:
    api.put("a")
    gone = answer(404, "NotFound")

    async def no_longer_served(request: web.Request, response: web.StreamResponse) -> None:
        response.set_status(404)
        await response.prepare(request)
        await response.write(status_body(404, "NotFound"))

    async with reflecting(api, optional=True) as (mirror, reflector):
        await eventually_on_loop(lambda: mirror.names == {"a"})
        await api.opened.wait()
        api.next_watches = [no_longer_served]
        api.next_lists = [gone] * 100
        api.close_watches()
        await eventually_on_loop(lambda: reflector.state.absent)
        assert mirror.names == set()
        # Served again, with versions that start over.
        api.version = 1
        api.objects.clear()
        api.put("b")
        api.next_lists = []
        await eventually_on_loop(lambda: mirror.names == {"b"})


async def test_a_resource_that_must_be_there_is_waited_for(api: FakeApi) -> None:
    api.next_lists = [answer(404, "NotFound")] * 1000
    api.put("a")
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.error is not None)
        assert not reflector.synced.is_set()
        assert mirror.replaced == []
        api.next_lists = []
        await eventually_on_loop(lambda: mirror.names == {"a"})


async def test_a_refresh_shows_what_a_silent_watch_does_not(api: FakeApi) -> None:
    api.put("before")
    api.next_watches = [speaking(then_hang=True)]
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.watching)
        api.put("after")
        await reflector.refresh()
        assert mirror.names == {"before", "after"}
        assert reflector.state.lists == 2


async def test_a_refresh_that_fails_changes_nothing(api: FakeApi) -> None:
    api.put("before")
    api.next_watches = [speaking(then_hang=True)]
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.watching)
        api.next_lists = [answer(500, "InternalError")]
        with pytest.raises(KubeError):
            await reflector.refresh()
        assert mirror.names == {"before"}


async def test_a_refresh_that_the_watch_has_overtaken_is_not_taken(api: FakeApi) -> None:
    api.put("now")

    async def older(_: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "150"}, "items": []})

    bookmark = line("BOOKMARK", {"metadata": {"resourceVersion": "200"}})
    api.next_watches = [speaking(bookmark, then_hang=True)]
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.resource_version == "200")
        api.next_lists = [older]
        await reflector.refresh()
        assert mirror.names == {"now"}


async def test_when_told_that_the_cluster_went_back_it_takes_an_older_list_at_once(api: FakeApi) -> None:
    api.put("kept")
    api.put("undone")
    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.watching)
        api.version = 245
        api.bookmark()
        await eventually_on_loop(lambda: reflector.state.resource_version == "246")
        api.go_back(150, "kept")
        reflector.list_anew()
        assert reflector.state.outdated
        await eventually_on_loop(lambda: reflector.state.watching and not reflector.state.outdated)
        assert (mirror.names, mirror.deleted) == ({"kept"}, ["undone"])
        assert (mirror.replaced, reflector.doubtful) == (["102", "150"], False)
        assert api.watches[-1].query["resourceVersion"] == "150"
        # What comes now is new, though its version was seen before.
        api.put("new")
        await eventually_on_loop(lambda: mirror.names == {"kept", "new"})


async def test_it_breaks_off_a_list_of_before_the_cluster_went_back(api: FakeApi) -> None:
    """Its first one: then there is nothing yet that is outdated."""
    api.put("now")
    request_came = asyncio.Event()

    async def hanging(_: web.Request) -> web.StreamResponse:
        request_came.set()
        await asyncio.sleep(3600)
        raise AssertionError

    api.next_lists = [hanging]
    async with reflecting(api) as (mirror, reflector):
        await asyncio.wait_for(request_came.wait(), 5)
        reflector.list_anew()
        assert not reflector.state.outdated
        await eventually_on_loop(lambda: reflector.state.watching)
        assert mirror.names == {"now"}


async def test_it_waits_for_no_backoff_when_the_cluster_went_back(api: FakeApi) -> None:
    """Nor does what fails after that: the API server is just about to be started."""
    api.put("now")
    api.next_watches = [speaking(status=500)] * 2
    async with reflecting(api, msgspec.structs.replace(QUICK, backoff_first=3600, backoff_most=3600)) as (_, reflector):
        await eventually_on_loop(lambda: not api.next_watches)
        api.next_lists = [answer(500, "InternalError")]
        reflector.list_anew()
        await eventually_on_loop(lambda: reflector.state.watching)
        assert reflector.state.lists == 2


async def test_a_refresh_of_before_the_cluster_went_back_is_not_taken(api: FakeApi) -> None:
    api.put("undone")
    request_came, may_answer = asyncio.Event(), asyncio.Event()

    async def late(_: web.Request) -> web.StreamResponse:
        request_came.set()
        await may_answer.wait()
        return web.json_response({"metadata": {"resourceVersion": "900"}, "items": [pod("undone", 101)]})

    async with reflecting(api) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.watching)
        api.next_lists = [late]
        refreshing = asyncio.create_task(reflector.refresh())
        await asyncio.wait_for(request_came.wait(), 5)
        api.go_back(50)
        reflector.list_anew()
        await eventually_on_loop(lambda: reflector.state.watching and not reflector.state.outdated)
        may_answer.set()
        with pytest.raises(MalformedResponse, match="went back to an older state during the list"):
            await refreshing
        assert mirror.names == set()


async def test_while_an_api_server_may_not_have_noticed_an_ended_watch_leads_to_a_list(api: FakeApi) -> None:
    """It is the end of its process that shows the older state, and a watch that went on from before would miss that."""
    api.put("undone")
    async with reflecting(api, msgspec.structs.replace(QUICK, silence=3600)) as (mirror, reflector):
        await eventually_on_loop(lambda: reflector.state.watching)
        reflector.list_anew()
        await eventually_on_loop(lambda: reflector.state.lists == 2 and reflector.state.watching)
        assert reflector.doubtful
        assert mirror.names == {"undone"}
        api.go_back(50)
        api.close_watches()
        await eventually_on_loop(lambda: mirror.names == set())
        assert not reflector.doubtful
        await eventually_on_loop(lambda: reflector.state.watching)
        api.close_watches()
        await eventually_on_loop(lambda: reflector.state.watches >= 4 and reflector.state.watching)
        assert reflector.state.lists == 3, "from then on it resumes again"
