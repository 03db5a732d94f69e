"""What the page asks the API server and the running scheduler for a visitor: with the visitor's own token, or not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig, KubeError
from scheduler.kube.primitives import format_time
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer, SchedulerPod
from secondary_scheduler.errors import CommandError
from secondary_scheduler.page.rights import NamespacedName
from secondary_scheduler.page.running import LeadingScheduler, as_visitor
from secondary_scheduler.views.guarding import Refused
from secondary_scheduler.views.health import health_page
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.pods import PodAnswer, running_pod
from tests.support.answers import decision, decisions, read_decisions
from tests.support.runningpages import status_of
from tests.support.sharedpagemodels import MARK, shared_page_model
from tests.support.visiting import Visit, visiting

ATTEMPT = decision(schedulerName="mine", node="node-0001")


@dataclass
class FakeRunning:
    """A fake: keeps with which tokens it is asked, and answers, or refuses."""

    document: dict[str, Any]
    problem: str = ""
    tokens: list[str] = field(default_factory=list)

    async def status(self, token: str, user: str) -> dict[str, Any]:
        self._note(token)
        return self.document

    async def reported(self) -> dict[str, Any]:
        return self.document

    async def ask(self, token: str, user: str, namespace: str, name: str) -> PodAnswer:
        self._note(token)
        return running_pod(read_decisions({**ATTEMPT, "message": f"about {namespace}/{name}"}))

    def _note(self, token: str) -> None:
        self.tokens.append(token)
        if self.problem:
            raise CommandError(self.problem)


@pytest.fixture(scope="module")
def page_model() -> PageModel:
    return shared_page_model()


@pytest.fixture
def scheduler(page_model: PageModel) -> FakeRunning:
    return FakeRunning(status_of(page_model))


@pytest.fixture
async def visit(page_model: PageModel, scheduler: FakeRunning) -> AsyncIterator[Visit]:
    async with visiting(page_model, scheduler) as visit:
        yield visit


async def test_who_has_a_token_of_the_api_server_begins_with_health(visit: Visit, scheduler: FakeRunning) -> None:
    assert (await visit.get("/", "api-viewer")).headers["Location"] == "/health"
    answer = await visit.get("/health", "api-viewer")
    assert answer.status == 200
    assert "Replicas ready" in answer.text
    assert "data-live" in answer.text
    assert "what the API server and the running scheduler say" in answer.text
    assert scheduler.tokens == ["api-viewer"]


async def test_the_scheduler_is_asked_about_a_pod_with_the_visitors_token(visit: Visit, scheduler: FakeRunning) -> None:
    listed = await visit.get("/in/ours/why", "api-viewer")
    assert 'href="/in/ours/why?namespace=ours&amp;name=api-000' in listed.text
    assert MARK not in listed.text
    assert scheduler.tokens == []
    answer = await visit.get("/in/ours/why?namespace=ours&name=api-000", "api-viewer")
    assert "about ours/api-000" in answer.text
    assert scheduler.tokens == ["api-viewer"]


async def test_a_token_of_the_form_begins_with_what_the_lease_says(visit: Visit, scheduler: FakeRunning) -> None:
    visit.form.tokens["operator"] = frozenset({"nodes", "lease"})
    login = await visit.log_in("operator")
    assert login.headers["Location"] == "/health"
    assert (await visit.get("/", session=login.session)).headers["Location"] == "/health"
    health = await visit.get("/health", session=login.session)
    assert (health.status, "Replicas ready" in health.text) == (200, True)
    # Nothing but its reader keeps the session.
    assert "data-live" not in health.text
    assert 'href="/health"' in (await visit.get("/nodes", session=login.session)).text
    assert scheduler.tokens == []


async def test_a_token_of_the_form_asks_nobody_and_the_page_says_why(visit: Visit, scheduler: FakeRunning) -> None:
    session = (await visit.log_in("admin")).session
    assert (await visit.get("/", session=session)).headers["Location"] == "/nodes"
    assert 'href="/health"' not in (await visit.get("/nodes", session=session)).text
    health = await visit.get("/health", session=session)
    assert (health.status, "<h1>Forbidden</h1>" in health.text) == (403, True)
    why = await visit.get("/why?namespace=ours&name=api-000", session=session)
    assert (why.status, "Your token is for this page only" in why.text) == (403, True)
    assert scheduler.tokens == []


async def test_who_may_not_see_the_page_asks_nobody(visit: Visit, scheduler: FakeRunning) -> None:
    for path in ("/health", "/why?namespace=ours&name=api-000"):
        assert (await visit.get(path, "api-nobody")).status == 403
        assert (await visit.get(path, "stranger")).status == 401
        assert (await visit.send(path)).headers["Location"] == "/login"
    assert scheduler.tokens == []


async def test_what_is_refused_there_is_shown_and_not_the_token(visit: Visit, scheduler: FakeRunning) -> None:
    scheduler.problem = "pod a/b: it needs get and create on pods/portforward"
    for path in ("/health", "/why?namespace=ours&name=api-000"):
        answer = await visit.get(path, "api-admin")
        assert (answer.status, "portforward" in answer.text) == (502, True)
        assert "api-admin" not in answer.text


async def test_without_a_lease_nothing_can_be_asked(page_model: PageModel) -> None:
    async with visiting(page_model) as visit:
        assert (await visit.get("/health", "api-admin")).status == 404
        assert (await visit.get("/", "api-admin")).headers["Location"] == "/nodes"


# The way there ------------------------------------------------------------------------------------------------------

OWN = ClientConfig(
    server="https://api:6443",
    ca_data=b"ca",
    token_file=Path("/var/run/token"),
    cert_data=b"own certificate",
    key_data=b"own key",
    token="own token",
)


def test_no_credential_of_the_page_goes_with_a_visitors_question() -> None:
    config = as_visitor(OWN, "theirs")
    assert (config.server, config.ca_data, config.token) == (OWN.server, OWN.ca_data, "theirs")
    assert (config.token_file, config.cert_file, config.cert_data) == (None, None, None)
    assert (config.key_file, config.key_data) == (None, None)


class FakeLease:
    """A fake client of the page's own: it hands out one Lease."""

    def __init__(self, holder: str | None, renewed: float) -> None:
        self.holder = holder
        self.renewed = format_time(datetime.now(UTC) - timedelta(seconds=renewed))

    async def get(self, path: str) -> bytes:
        assert path.endswith("/namespaces/scheduling/leases/mine")
        if self.holder is None:
            raise KubeError("GET lease: 404")
        annotations = {"secondary-scheduler.io/configuration-hash": "x"}
        spec = {"holderIdentity": self.holder, "renewTime": self.renewed, "leaseDurationSeconds": 15}
        return json.dumps({"metadata": {"annotations": annotations}, "spec": spec}).encode()


def scheduler_of(holder: str | None, renewed: float = 0) -> LeadingScheduler:
    """The scheduler of a Lease that a pod holds, and renewed so many seconds ago; None: it cannot be read."""
    client: Any = FakeLease(holder, renewed)
    return LeadingScheduler(OWN, NamespacedName("scheduling", "mine"), client)


async def test_a_lease_says_who_leads_and_what_runs_and_not_more() -> None:
    scheduler = scheduler_of("pod-1_uid")
    page = health_page(await scheduler.reported())
    (instance,) = page.instances
    figures = {figure.title: figure.value for figure in instance.figures}
    assert (figures["Leader"], figures["Replicas ready"], page.status.state) == ("pod-1", "not known", "ok")
    assert ("configuration", "x runs") in instance.facts
    assert any("your token is for this page only" in line for line in page.status.not_shown)


@pytest.mark.parametrize(("holder", "renewed"), [("", 0), ("pod-1_uid", 600)])
async def test_a_lease_that_nobody_holds_is_a_failure(holder: str, renewed: int) -> None:
    page = health_page(await scheduler_of(holder, renewed).reported())
    (instance,) = page.instances
    assert page.status.state == "failed"
    assert [problem.subject for problem in instance.status.problems] == ["Lease"]
    assert not any("runs" in text for _, text in instance.facts)


ANSWERS = [
    (SchedulerAnswer(200, json.dumps(decisions(ATTEMPT)).encode()), ""),
    (SchedulerAnswer(200, json.dumps(decisions(waiting=None)).encode()), "unknown to pod-1"),
    (SchedulerAnswer(200, json.dumps(decisions(schedulerNames=5)).encode()), "cannot read its answer"),
    (SchedulerAnswer(200, b"<html>"), "not a scheduler's of this project"),
    (SchedulerAnswer(200, b"[" * 100_000), "not a scheduler's of this project"),
    (SchedulerAnswer(403, b"the token is not allowed"), "this user needs to get pods in namespace shop"),
]


@pytest.mark.parametrize(("answer", "problem"), ANSWERS, ids=range(len(ANSWERS)))
async def test_the_leader_is_asked_as_the_visitor(
    monkeypatch: pytest.MonkeyPatch, answer: SchedulerAnswer, problem: str
) -> None:
    questions: list[tuple[Any, ...]] = []

    async def get(pod: SchedulerPod, *question: Any) -> SchedulerAnswer:
        questions.append((pod.config.token, pod.asker, pod.place, pod.port, *question))
        return answer

    monkeypatch.setattr(SchedulerPod, "get", get)
    refusal = ""
    try:
        pod = await scheduler_of("pod-1_uid").ask("theirs", "me", "shop", "web 1")
        assert pod.last is not None
        assert pod.last.node == "node-0001"
    except CommandError as error:
        refusal = str(error)
    assert (problem in refusal) if problem else refusal == ""
    path = "/debug/decisions/namespaces/shop"
    assert questions == [("theirs", None, "scheduling/pod-1", 10259, path, {"pod": "web 1"})]


@pytest.mark.parametrize(("holder", "problem"), [("", "no replica of the scheduler leads"), (None, "cannot be read")])
async def test_without_a_leader_nobody_is_asked(holder: str | None, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        await scheduler_of(holder).ask("theirs", "me", "shop", "web")


@pytest.mark.parametrize(
    ("others", "status", "problem"),
    [(["me", "me"], 429, "you ask"), ([f"user-{n}" for n in range(16)], 503, "too many")],
)
async def test_who_asks_and_asks_is_told_to_wait_and_keeps_few_others_out(
    others: list[str], status: int, problem: str
) -> None:
    busy = scheduler_of("pod-1_uid")
    busy.asking.update(others)
    for question in (busy.ask("theirs", "me", "shop", "web"), busy.status("theirs", "me")):
        with pytest.raises(Refused, match=problem) as refused:
            await question
        assert refused.value.status == status
    with pytest.raises(CommandError, match="no replica"):
        await scheduler_of("").ask("theirs", "me", "shop", "web")


async def test_an_answer_that_was_given_counts_no_more() -> None:
    scheduler = scheduler_of("")
    for _ in range(3):
        with pytest.raises(CommandError, match="no replica"):
            await scheduler.ask("theirs", "me", "shop", "web")
    assert not scheduler.asking
