"""No view shows a visitor what the API server would not: every view, every node and decision, byte by byte.

Covered: names of pods, groups, claims, gates, labels, schedulers and namespaces; the configuration. Left out: how long
an answer takes, and what numbers say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from secondary_scheduler.page.cutting import Visitor, cut
from secondary_scheduler.views import rendering
from secondary_scheduler.views.asking import BadQuery
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.showing import VIEWS
from tests.support.sharedpagemodels import MARK, OURS, SECRET_ARG, THEIRS, shared_page_model

ADDRESSES = {
    "/nodes": (
        "",
        "when=after&by=estimated&resource=memory&group=none&order=name",
        "group=topology.kubernetes.io/zone",
    ),
    "/node": tuple(f"name=node-{index:04d}" for index in range(3)),
    "/queue": ("", "page=2"),
    "/decisions": (
        *(
            "",
            "page=2",
            "result=unschedulable",
            "result=gated",
            "result=undecided",
            "result=placed",
            f"namespace={OURS}",
        ),
        # What may not be named is refused with what may be.
        *(f"namespace={THEIRS}", "plugin=Coscheduling", "plugin=NodeResourcesFit", "q=claim"),
    ),
    "/decisions/{number}": ("",),
    "/configuration": ("",),
}
EVERYBODY = Visitor(None, configuration=True)


@pytest.fixture(scope="module")
def page_model() -> PageModel:
    return shared_page_model()


def pages_for(page_model: PageModel, visitor: Visitor) -> Iterator[tuple[str, str]]:
    """The text of each page that there is for a visitor, by its address."""
    seen = cut(page_model, visitor)
    for route, view in VIEWS.items():
        numbers = range(len(page_model.run.decisions) + 2) if "{number}" in route else (0,)
        for query in ADDRESSES[route]:
            for number in numbers:
                path = f"{route.replace('{number}', str(number))}?{query}"
                request = make_mocked_request("GET", path, match_info={"number": str(number)})
                try:
                    shown = view(request, seen)
                except (web.HTTPException, BadQuery) as problem:
                    yield path, problem.text or "" if isinstance(problem, web.HTTPException) else str(problem)
                else:
                    yield path, _page(shown.template, shown.view, seen, dict(shown.values))


def _page(template: str, view: str, page_model: PageModel, values: dict[str, object]) -> str:
    fixed: dict[str, Any] = {"root": "", "site_root": "", "navigation": (), "live": False, "of_now": False}
    fixed |= {"moment": None, "account": None}
    return rendering.render(template, view=view, page_model=page_model, version="0", has_time=True, **fixed, **values)


def test_every_view_is_gone_through() -> None:
    assert set(ADDRESSES) == set(VIEWS)


@pytest.mark.parametrize("namespaces", [frozenset({OURS}), frozenset(), frozenset({"elsewhere"})], ids=sorted)
def test_no_page_has_a_name_of_another_namespace(page_model: PageModel, namespaces: frozenset[str]) -> None:
    for path, text in pages_for(page_model, Visitor(namespaces, configuration=True)):
        assert MARK not in text, path
        assert THEIRS not in text.replace(f"namespace={THEIRS}", ""), path


def test_who_may_list_all_pods_sees_these_names(page_model: PageModel) -> None:
    texts = dict(pages_for(page_model, EVERYBODY))
    everything = "".join(texts.values())
    for name in ("running", "gated", "huge", "claiming", "device", "grouped", "broken", "fits"):
        assert f"{THEIRS}/{MARK}-{name}" in everything, name
    for text in (f"{MARK}-claim", f"{MARK}-device", f"{MARK}-scheduler"):
        assert text in everything, text


def test_who_may_read_the_namespace_sees_its_pods_and_no_others(page_model: PageModel) -> None:
    everything = "".join(text for _, text in pages_for(page_model, Visitor(frozenset({THEIRS}))))
    assert f"{THEIRS}/{MARK}-running" in everything
    assert f"{THEIRS}/{MARK}-claiming" in everything
    assert f"{OURS}/" not in everything


def test_what_is_hidden_is_counted(page_model: PageModel) -> None:
    texts = dict(pages_for(page_model, Visitor(frozenset({OURS}))))
    every = len(page_model.run.decisions)
    theirs = sum(decision.namespace == THEIRS for decision in page_model.run.decisions)
    assert theirs > 4
    assert f"{theirs} decisions about pods of namespaces that you did not name" in texts["/decisions?"]
    assert f'<h2 id="list">{every - theirs} decisions</h2>' in texts["/decisions?"]
    assert "1 pod of namespaces that you did not name" in texts["/node?name=node-0000"]
    pods = len(page_model.pods_on("node-0000"))
    assert f"{pods} pods of 110" in texts["/node?name=node-0000"]
    assert "all of them: 1" in texts["/queue?"]


def test_numbers_of_decisions_lead_to_those_that_are_seen(page_model: PageModel) -> None:
    seen = cut(page_model, Visitor(frozenset({OURS})))
    assert [decision.number for decision in seen.run.decisions] == list(range(1, len(seen.run.decisions) + 1))
    assert {decision.namespace for decision in seen.run.decisions} == {OURS}


def test_the_configuration_is_for_its_readers(page_model: PageModel) -> None:
    without = dict(pages_for(page_model, Visitor(None, configuration=False)))
    assert "may read the scheduler's ConfigMap" in without["/configuration?"]
    assert [path for path, text in without.items() if SECRET_ARG in text] == []
    assert SECRET_ARG in dict(pages_for(page_model, Visitor(frozenset(), configuration=True)))["/configuration?"]
    # Its profiles' names stand in the pods.
    assert "secondary-scheduler" in without["/queue?"]


def test_a_cut_changes_nothing_of_the_page_model(page_model: PageModel) -> None:
    before = (page_model.run, page_model.remarks, page_model.others.copy())
    cut(page_model, Visitor(frozenset({OURS})))
    assert (page_model.run, page_model.remarks, page_model.others) == before
