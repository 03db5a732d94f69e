"""Whose tokens are reviewed, and how many reviews a flood of them may cause."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from scheduler.observe import Authorizer
from scheduler.observe.answers import SplitReviewClient
from tests.support.clock import Clock


class Reviews:
    """An API server that knows `good`; `hold` keeps every answer back."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.accesses = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        if path.endswith("tokenreviews"):
            token = body["spec"]["token"]
            self.tokens.append(token)
            if token != "good":
                await self.hold.wait()
            status: dict[str, Any] = {"authenticated": token == "good", "user": {"username": token}}
        else:
            self.accesses += 1
            status = {"allowed": True}
        return json.dumps({"status": status}).encode()

    async def close(self) -> None:
        """Nothing to release."""


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authorizer(reviews: Reviews, clock: Clock) -> Authorizer:
    return Authorizer(reviews, clock=clock)


async def test_a_flood_of_tokens_costs_few_reviews_and_the_known_scraper_is_served(
    authorizer: Authorizer, reviews: Reviews, clock: Clock
) -> None:
    assert await authorizer.status("good", "/metrics", "10.0.0.1") == 200
    for second in range(60):
        clock.now += 1
        for number in range(100):
            await authorizer.status(f"junk-{second}-{number}", "/metrics", f"10.1.0.{number % 50}")
        assert await authorizer.status("good", "/metrics", "10.0.0.1") == 200
    junk = [token for token in reviews.tokens if token != "good"]
    # 20 at once and 5 a second, of 6,000.
    assert len(junk) <= 20 + 60 * 5
    assert len(junk) == len(set(junk))


async def test_one_address_takes_only_its_share(authorizer: Authorizer, clock: Clock) -> None:
    refused = [await authorizer.status(f"junk-{number}", "/metrics", "10.1.0.1") for number in range(100)]
    assert refused == [401] * 5 + [429] * 95
    assert await authorizer.status("good", "/metrics", "10.0.0.1") == 200
    clock.now += 1
    assert await authorizer.status("junk-later", "/metrics", "10.1.0.1") == 401


async def test_reviews_that_hang_do_not_hold_up_a_known_token(
    authorizer: Authorizer, reviews: Reviews, clock: Clock
) -> None:
    assert await authorizer.status("good", "/metrics", "10.0.0.1") == 200
    clock.now += 30
    reviews.hold.clear()
    waiting = [
        asyncio.create_task(authorizer.status(f"junk-{number}", "/metrics", f"10.1.0.{number}")) for number in range(20)
    ]
    await asyncio.sleep(0)
    assert await authorizer.status("good", "/metrics", "10.0.0.1") == 200
    assert len([token for token in reviews.tokens if token != "good"]) <= 4
    reviews.hold.set()
    assert set(await asyncio.gather(*waiting)) == {401}


async def test_a_refused_token_is_not_reviewed_again_for_a_while(
    authorizer: Authorizer, reviews: Reviews, clock: Clock
) -> None:
    for _ in range(50):
        assert await authorizer.status("junk", "/metrics", "10.1.0.1") == 401
    assert reviews.tokens == ["junk"]
    clock.now += 10.1
    assert await authorizer.status("junk", "/metrics", "10.1.0.1") == 401
    assert reviews.tokens == ["junk", "junk"]


async def test_each_token_has_the_name_of_its_own_user(clock: Clock) -> None:
    class Everybody(Reviews):
        async def post(self, path: str, body: dict[str, Any]) -> bytes:
            status = {"authenticated": True, "allowed": True}
            if path.endswith("tokenreviews"):
                status |= {"user": {"username": f"user of {body['spec']['token']}"}}
            return json.dumps({"status": status}).encode()

    authorizer = Authorizer(Everybody(), clock=clock)
    for token in ("first", "second"):
        assert await authorizer.status(token, "/metrics", "10.0.0.1") == 200
    assert [authorizer.user(token) for token in ("first", "second")] == ["user of first", "user of second"]
    assert authorizer.user("third") == ""


async def test_requests_that_come_together_share_a_review(authorizer: Authorizer, reviews: Reviews) -> None:
    statuses = await asyncio.gather(*(authorizer.status("good", "/metrics", "10.0.0.1") for _ in range(30)))
    assert set(statuses) == {200}
    assert (reviews.tokens, reviews.accesses) == (["good"], 1)


async def test_what_is_remembered_is_bounded(authorizer: Authorizer, clock: Clock) -> None:
    for number in range(2000):
        clock.now += 1
        await authorizer.status(f"junk-{number}", "/metrics", f"10.{number // 256}.{number % 256}.1")
    assert max(len(value) for value in vars(authorizer).values() if hasattr(value, "__len__")) <= 256


@pytest.mark.parametrize(("token", "seconds"), [("good", 3.0), ("junk", 7.0)])
async def test_an_answer_counts_for_as_long_as_the_flags_say(
    reviews: Reviews, clock: Clock, token: str, seconds: float
) -> None:
    authorizer = Authorizer(reviews, authenticated=20.0, authorized=3.0, refused=7.0, clock=clock)
    await authorizer.status(token, "/metrics", "10.0.0.1")
    clock.now += seconds - 0.5
    await authorizer.status(token, "/metrics", "10.0.0.1")
    assert reviews.tokens == [token]
    clock.now += 1
    await authorizer.status(token, "/metrics", "10.0.0.1")
    assert reviews.tokens == [token, token]


async def test_each_review_goes_to_the_api_server_that_its_flag_names() -> None:
    reviews_by_client: list[tuple[str, str]] = []

    class Named:
        def __init__(self, name: str) -> None:
            self._name = name

        async def post(self, path: str, body: dict[str, Any]) -> bytes:
            reviews_by_client.append((self._name, path.rpartition("/")[2]))
            status = {"authenticated": True, "user": {"username": "u"}, "allowed": True}
            return json.dumps({"status": status}).encode()

        async def close(self) -> None:
            reviews_by_client.append((self._name, "closed"))

    client = SplitReviewClient(Named("authentication"), Named("authorization"))
    assert await Authorizer(client).status("token", "/metrics") == 200
    await client.close()
    assert reviews_by_client == [
        ("authentication", "tokenreviews"),
        ("authorization", "subjectaccessreviews"),
        ("authentication", "closed"),
        ("authorization", "closed"),
    ]


class AudienceReviews(Reviews):
    """An API server that knows `good`, and says for whom it is as `audiences` says."""

    def __init__(self, audiences: list[str] | None) -> None:
        super().__init__()
        self.audiences = audiences
        self.asked_for: list[Any] = []
        self.attributes: list[Any] = []

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        if path.endswith("tokenreviews"):
            self.asked_for.append(body["spec"].get("audiences"))
            status: dict[str, Any] = {"authenticated": body["spec"]["token"] == "good", "user": {"username": "ann"}}
            return json.dumps({"status": {**status, "audiences": self.audiences}}).encode()
        self.attributes.append(body["spec"].get("resourceAttributes"))
        return await super().post(path, body)


@pytest.mark.parametrize(
    ("audiences", "status"), [(["page"], 200), (["other", "page"], 200), (["other"], 401), ([], 401), (None, 401)]
)
async def test_a_token_counts_for_its_audience_only(audiences: list[str] | None, status: int, clock: Clock) -> None:
    reviews = AudienceReviews(audiences)
    assert await Authorizer(reviews, clock=clock, audience="page").status("good", "/metrics", "a") == status
    assert reviews.asked_for == [["page"]]


async def test_without_an_audience_none_is_asked_for(clock: Clock) -> None:
    reviews = AudienceReviews(None)
    assert await Authorizer(reviews, clock=clock).status("good", "/metrics", "a") == 200
    assert reviews.asked_for == [None]


async def test_what_a_path_needs_can_be_said_by_whoever_serves_it(clock: Clock) -> None:
    reviews = AudienceReviews(None)
    right = {"resourceAttributes": {"verb": "get", "resource": "nodes"}}
    assert await Authorizer(reviews, clock=clock, access=lambda path: right).status("good", "nodes", "a") == 200
    assert reviews.attributes == [right["resourceAttributes"]]


async def test_a_user_without_a_name_is_asked_about_as_nobody() -> None:
    users: list[Any] = []

    class Nameless(Reviews):
        async def post(self, path: str, body: dict[str, Any]) -> bytes:
            users.append(body["spec"].get("user"))
            return json.dumps({"status": {"authenticated": True, "user": {}}}).encode()

    assert await Authorizer(Nameless()).status("good", "/metrics") == 403
    assert users == [None, ""]


async def test_a_review_of_rights_is_about_the_whole_user() -> None:
    """Authorizers may go by groups, UID and extra: without them somebody else's rights would be asked about."""
    user = {"username": "jane", "groups": ["devs"], "uid": "j-uid", "extra": {"scopes": ["read"]}}
    posted: list[tuple[str, dict[str, Any]]] = []

    class Whole:
        async def post(self, path: str, body: dict[str, Any]) -> bytes:
            posted.append((path, body))
            return json.dumps({"status": {"authenticated": True, "user": user}}).encode()

        async def close(self) -> None:
            """Nothing to release."""

    assert await Authorizer(Whole()).status("good", "/metrics") == 403
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "jane",
            "groups": ["devs"],
            "uid": "j-uid",
            "extra": {"scopes": ["read"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }
    assert posted[-1] == ("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
