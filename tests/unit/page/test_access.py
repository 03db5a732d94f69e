"""Who gets a page of the cluster's, and every refusal: hosts, forms of others, tokens, sessions, rights, floods."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession

from secondary_scheduler.page.site import COOKIE, IDLE_SECONDS, MAX_SECONDS, MAX_SESSIONS, MAX_SESSIONS_OF_A_USER
from secondary_scheduler.views.guarding import HEADERS
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.sharedpagemodels import MARK, shared_page_model
from tests.support.visiting import HOST, OWN, Visit, visiting


@pytest.fixture(scope="module")
def page_model() -> PageModel:
    return shared_page_model()


@pytest.fixture
async def visit(page_model: PageModel) -> AsyncIterator[Visit]:
    async with visiting(page_model) as visit:
        yield visit


@pytest.mark.parametrize(
    "host",
    ["evil.example.com", "127.0.0.1", f"{HOST}.evil.example.com", f"evil@{HOST}", f"{HOST}/evil", f"{HOST}:", "[", ""],
    ids=str,
)
async def test_another_host_is_refused(visit: Visit, host: str) -> None:
    answer = await visit.send("/nodes", headers={"Host": host, "Authorization": "Bearer api-admin"})
    assert (answer.status, answer.text) == (421, "this server does not answer to that name\n")
    assert not visit.header.asked


async def test_a_host_may_come_with_any_port(visit: Visit) -> None:
    answer = await visit.send("/nodes", headers={"Host": f"{HOST}:8443", "Authorization": "Bearer api-admin"})
    assert answer.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example.com"},
        {"Origin": "null"},
        {"Origin": f"https://{HOST}", "Sec-Fetch-Site": "cross-site"},
        {"Origin": f"https://{HOST}:444"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/login", "/logout"])
async def test_a_form_of_another_page_changes_nothing(visit: Visit, path: str, headers: dict[str, str]) -> None:
    session = (await visit.log_in("admin")).session
    answer = await visit.send(path, "POST", {**headers, "Cookie": f"{COOKIE}={session}"}, token="admin")
    assert (answer.status, answer.cookies) == (403, [])
    assert (await visit.get("/nodes", session=session)).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused(visit: Visit, method: str) -> None:
    assert (await visit.send("/nodes", method, OWN)).status == 405


async def test_without_a_token_there_is_only_the_form(visit: Visit) -> None:
    for path in ("/nodes", "/node?name=node-0000", "/queue", "/decisions/1", "/configuration", "/in/ours/nodes"):
        answer = await visit.send(path)
        assert (answer.status, answer.headers["Location"], answer.text) == (303, "/login", ""), path
    form = await visit.send("/login")
    assert form.status == 200
    assert "node-0000" not in form.text
    assert "--audience secondary-scheduler-page" in form.text


async def test_a_token_in_the_address_counts_for_nothing(visit: Visit) -> None:
    for path in ("/nodes?token=api-admin", "/nodes?access_token=api-admin", "/login?token=admin"):
        answer = await visit.send(path)
        assert answer.cookies == []
        assert "node-0000" not in answer.text
    assert not visit.header.asked
    assert not visit.form.asked


@pytest.mark.parametrize(
    "value", ["Bearer", "Bearer ", "Basic YTpi", "api-admin", "Bearer a b", f"Bearer {'x' * 8000}"]
)
async def test_a_header_that_is_no_known_token_is_refused(visit: Visit, value: str) -> None:
    session = (await visit.log_in("admin")).session
    # The header counts where there are both: a proxy says who asks.
    answer = await visit.send("/nodes", headers={"Authorization": value, "Cookie": f"{COOKIE}={session}"})
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "node-0000" not in answer.text


async def test_a_token_for_this_page_only_is_none_for_the_header(visit: Visit) -> None:
    assert (await visit.get("/nodes", "admin")).status == 401


async def test_a_header_sets_no_cookie(visit: Visit) -> None:
    answer = await visit.get("/nodes", "api-admin")
    assert (answer.status, answer.cookies) == (200, [])
    assert "Log out" not in answer.text


async def test_who_may_not_get_nodes_sees_nothing(visit: Visit) -> None:
    answer = await visit.get("/nodes", "api-nobody")
    assert answer.status == 403
    assert "node-0000" not in answer.text
    login = await visit.log_in("nobody")
    assert (login.status, login.cookies) == (403, [])


async def test_a_login_keeps_the_token_here_and_the_cookie_from_scripts_and_other_sites(visit: Visit) -> None:
    answer = await visit.log_in("viewer")
    assert (answer.status, answer.headers["Location"]) == (303, "/nodes")
    (cookie,) = answer.cookies
    assert cookie.startswith("__Host-session=")
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= parts
    assert not [part for part in parts if part.startswith(("domain", "max-age", "expires"))]
    assert "viewer" not in cookie
    assert len(answer.session) == 32  # 192 bits, 6 in each character


async def test_a_token_that_is_good_at_the_api_server_is_refused_with_how_to_get_the_other(visit: Visit) -> None:
    visit.form.tokens["both"] = visit.header.tokens["both"] = visit.form.tokens["admin"]
    for token in ("both", "api-admin", "api-nobody"):
        answer = await visit.log_in(token)
        assert (answer.status, answer.cookies) == (403, []), token
        assert "kubectl create token NAME --audience secondary-scheduler-page" in answer.text
        assert "good at the API server" in answer.text


@pytest.mark.parametrize(
    ("token", "status"), [("stranger", 401), ("", 400), ("a b", 400), ("ü", 400), ("x" * 20000, 400)]
)
async def test_a_strangers_token_begins_no_session(visit: Visit, token: str, status: int) -> None:
    answer = await visit.log_in(token)
    assert (answer.status, answer.cookies) == (status, [])
    assert len(visit.site.sessions) == 0


async def test_a_form_that_is_too_large_is_refused(visit: Visit) -> None:
    answer = await visit.log_in("x" * 100_000)
    assert (answer.status, answer.cookies) == (413, [])


async def test_a_flood_of_strangers_is_told_to_wait(visit: Visit) -> None:
    visit.form.flooded = visit.header.flooded = True
    assert (await visit.log_in("admin")).status == 429
    assert (await visit.get("/nodes", "api-admin")).status == 429


async def test_without_the_api_server_nobody_gets_in_and_no_token_is_told(visit: Visit) -> None:
    session = (await visit.log_in("admin")).session
    visit.form.problem = visit.header.problem = OSError("POST token api-admin admin failed")
    answers = [await visit.log_in("admin"), await visit.get("/nodes", "api-admin"), await visit.get("/", "api-admin")]
    answers.append(await visit.get("/nodes", session=session))
    assert [answer.status for answer in answers] == [503, 503, 303, 503]
    assert [answer for answer in answers if "admin" in answer.text] == []
    assert not [line for line in visit.lines if "admin" in line]


async def test_each_login_makes_a_new_session_and_ends_the_former(visit: Visit) -> None:
    planted = "planted-by-somebody-else"
    first = (await visit.log_in("viewer", planted)).session
    assert first != planted
    second = (await visit.log_in("admin", first)).session
    assert (await visit.get("/nodes", session=first)).headers.get("Location") == "/login"
    assert (await visit.get("/nodes", session=planted)).headers.get("Location") == "/login"
    assert (await visit.get("/nodes", session=second)).status == 200


async def test_a_session_ends_when_it_is_not_used(visit: Visit) -> None:
    session = (await visit.log_in("admin")).session
    visit.clock.now += IDLE_SECONDS - 1
    assert (await visit.get("/nodes", session=session)).status == 200
    visit.clock.now += IDLE_SECONDS
    assert (await visit.get("/nodes", session=session)).headers["Location"] == "/login"


async def test_a_session_ends_after_eight_hours_of_use(visit: Visit) -> None:
    session = (await visit.log_in("admin")).session
    began = visit.clock.now
    while visit.clock.now - began < MAX_SECONDS - IDLE_SECONDS:
        visit.clock.now += IDLE_SECONDS - 1
        assert (await visit.get("/nodes", session=session)).status == 200
    visit.clock.now = began + MAX_SECONDS
    assert (await visit.get("/nodes", session=session)).headers["Location"] == "/login"


async def test_a_session_ends_with_its_token(visit: Visit) -> None:
    session = (await visit.log_in("admin")).session
    rights = visit.form.tokens.pop("admin")
    answer = await visit.get("/nodes", session=session)
    assert (answer.status, answer.headers["Location"]) == (303, "/login")
    assert "max-age=0" in answer.cookies[0].lower()
    visit.form.tokens["admin"] = rights
    assert (await visit.get("/nodes", session=session)).headers.get("Location") == "/login"


async def test_a_session_ends_with_log_out(visit: Visit) -> None:
    session = (await visit.log_in("admin")).session
    assert "Log out" in (await visit.get("/nodes", session=session)).text
    answer = await visit.send("/logout", "POST", {**OWN, "Cookie": f"{COOKIE}={session}"})
    assert (answer.status, answer.headers["Location"]) == (303, "/login")
    assert (await visit.get("/nodes", session=session)).headers.get("Location") == "/login"


async def test_the_session_that_was_idle_longest_goes_first(visit: Visit) -> None:
    sessions = visit.site.sessions
    opened = [sessions.open(f"token-{number}", f"user-{number}") for number in range(MAX_SESSIONS)]
    assert sessions.token(opened[0]) == "token-0"
    sessions.open("one more", "one more")
    assert len(sessions) == MAX_SESSIONS
    assert sessions.token(opened[1]) is None
    assert sessions.token(opened[0]) == "token-0"


async def test_one_user_cannot_end_the_sessions_of_others(visit: Visit) -> None:
    sessions = visit.site.sessions
    theirs = sessions.open("token", "they")
    ours = [sessions.open(f"token-{number}", "we") for number in range(MAX_SESSIONS)]
    assert len(sessions) == 1 + MAX_SESSIONS_OF_A_USER
    assert sessions.token(theirs) == "token"
    assert [sessions.token(each) for each in ours[-MAX_SESSIONS_OF_A_USER:]] != [None] * MAX_SESSIONS_OF_A_USER
    assert sessions.token(ours[-MAX_SESSIONS_OF_A_USER - 1]) is None


async def test_a_viewer_of_one_namespace_names_it_and_sees_its_pods(visit: Visit) -> None:
    session = (await visit.log_in("viewer")).session
    unnamed = await visit.get("/decisions", session=session)
    assert unnamed.status == 200
    assert "ours/" not in unnamed.text
    assert "Name yours" in unnamed.text
    chosen = await visit.get("/namespaces?names=+ours,+ours", session=session)
    assert (chosen.status, chosen.headers["Location"]) == (303, "/in/ours/decisions")
    named = await visit.get("/in/ours/decisions", session=session)
    assert "ours/api-000" in named.text
    assert MARK not in named.text
    assert 'href="/in/ours/decisions/1"' in named.text


async def test_a_namespace_that_the_visitor_may_not_list_is_refused(visit: Visit) -> None:
    session = (await visit.log_in("viewer")).session
    for path in ("/in/theirs/decisions", "/in/ours,theirs/decisions"):
        answer = await visit.get(path, session=session)
        assert answer.status == 403
        assert "list pods in the namespace theirs" in answer.text
        assert MARK not in answer.text


@pytest.mark.parametrize(
    "names", [",".join(f"n{number}" for number in range(11)), "Upper", "a/b", "-a", "x" * 64, "%20"]
)
async def test_namespaces_that_cannot_be_named_are_refused(visit: Visit, names: str) -> None:
    answer = await visit.get(f"/in/{names.replace('/', '%2F')}/nodes", "api-admin")
    assert answer.status in (400, 404)
    assert not [path for _, path in visit.header.asked if path.startswith("pods/")]


async def test_ten_namespaces_may_be_named(visit: Visit) -> None:
    names = [f"n{number}" for number in range(10)]
    visit.header.tokens["api-viewer"] |= {f"pods/{name}" for name in names}
    assert (await visit.get(f"/in/{','.join(names)}/queue", "api-viewer")).status == 200


async def test_the_configuration_is_for_who_may_read_its_config_map(visit: Visit) -> None:
    refused = await visit.get("/in/ours/configuration", "api-viewer")
    assert refused.status == 403
    assert 'href="/in/ours/configuration"' not in (await visit.get("/in/ours/nodes", "api-viewer")).text
    assert (await visit.get("/configuration", "api-admin")).status == 200


@pytest.mark.parametrize("path", ["/what-if", "/why?namespace=ours&name=api-000", "/refresh", "/over-time"])
async def test_what_costs_or_asks_others_is_not_offered(visit: Visit, path: str) -> None:
    assert (await visit.get(path, "api-admin")).status == 404
    assert (await visit.send(path, "POST", {**OWN, "Authorization": "Bearer api-admin"})).status in (404, 405)


async def test_every_answer_forbids_the_browser_what_it_need_not_do(visit: Visit) -> None:
    answers = [
        await visit.send("/login"),
        await visit.send("/nodes"),
        await visit.send("/nodes", headers={"Host": "evil.example.com"}),
        await visit.send("/static/ui.css"),
        await visit.get("/nodes", "api-admin"),
        await visit.get("/decisions/999", "api-admin"),
        await visit.get("/nodes", "stranger"),
        await visit.send("/logout", "POST", OWN),
    ]
    assert {answer.status for answer in answers} == {200, 303, 421, 404, 401}
    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS


async def test_one_visitor_cannot_take_all_the_time(visit: Visit) -> None:
    answers = [await visit.get("/decisions/999", "api-counter") for _ in range(80)]
    assert answers[-1].status == 429
    assert (await visit.get("/nodes", "api-admin")).status == 200
    visit.clock.now += 5
    assert (await visit.get("/nodes", "api-counter")).status == 200


async def test_more_tokens_of_one_user_are_no_more_pages(visit: Visit) -> None:
    """`kubectl create token` gives as many as one wants."""
    for number in range(80):
        visit.header.tokens[f"api-counter#{number}"] = frozenset({"nodes"})
    answers = [await visit.get("/decisions/999", f"api-counter#{number}") for number in range(80)]
    assert answers[-1].status == 429
    assert (await visit.get("/nodes", "api-admin")).status == 200


async def test_a_user_waits_for_eight_pages_at_most_and_others_are_served(visit: Visit) -> None:
    async with contextlib.AsyncExitStack() as under_way:
        for _ in range(8):
            await under_way.enter_async_context(visit.site.rights.visitor(visit.header, "api-counter", "10.0.0.1", ()))
        refused = await visit.get("/nodes", "api-counter")
        assert (refused.status, "Too many pages at a time" in refused.text) == (429, True)
        assert (await visit.get("/nodes", "api-admin")).status == 200
    assert (await visit.get("/nodes", "api-counter")).status == 200


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/x-www-form-urlencoded; charset=nonsense", b"token=a", "The form cannot be read"),
        ("application/x-www-form-urlencoded", b"token=\xff\xfe", "The form cannot be read"),
        ("multipart/form-data", b"token=a", "A form is sent as"),
        ("multipart/form-data; boundary=x", b"token=a", "A form is sent as"),
        ("text/plain", b"token=a", "A form is sent as"),
    ],
)
async def test_a_form_that_cannot_be_read_is_refused_without_a_line_in_the_log(
    visit: Visit, content_type: str, body: bytes, message: str
) -> None:
    headers = {**OWN, "Content-Type": content_type}
    async with (
        ClientSession() as session,
        session.post(visit.server.make_url("/login"), headers=headers, data=body) as answer,
    ):
        assert answer.status == 400
        assert message in await answer.text()
    assert visit.lines == []


async def test_a_defect_tells_the_visitor_nothing_and_the_log_no_token(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(type(visit.site.rights), "visitor", fail)
    answer = await visit.get("/nodes", "api-admin")
    assert answer.status == 500
    assert "broken" not in answer.text
    assert "RuntimeError: broken" in "".join(visit.lines)
    assert "api-admin" not in "".join(visit.lines)
