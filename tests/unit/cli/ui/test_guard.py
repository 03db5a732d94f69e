"""Who gets a page of `ui`, and what its headers forbid the browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui.app import Site, application, new_token
from secondary_scheduler.cli.ui.reading import read_page_model
from secondary_scheduler.views import nodes
from tests.support.pagemodels import write_page_model


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    files = write_page_model(tmp_path_factory.mktemp("page_model"), 3, 2)
    return Site(read_page_model(SnapshotRequest([str(files["snapshot"])], files["config"]), lambda line: None))


@pytest.fixture
async def server(site: Site) -> AsyncIterator[TestServer]:
    async with TestServer(application(site), host="127.0.0.1") as server:
        yield server


async def fetch(
    server: TestServer, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, str, dict[str, str]]:
    async with (
        ClientSession() as session,
        session.request(method, server.make_url(path), headers=headers, allow_redirects=False) as response,
    ):
        return response.status, await response.text(), dict(response.headers)


@pytest.mark.parametrize("path", ["/", "/nodes", "/static/ui.css", "/x/nodes", "/%ff/nodes"])
async def test_without_the_token_nothing_is_shown(server: TestServer, path: str) -> None:
    status, text, _ = await fetch(server, path)
    assert status == 403
    assert "node-" not in text
    assert "no valid token" in text


async def test_with_the_token_the_address_leads_to_the_nodes(server: TestServer, site: Site) -> None:
    status, _, headers = await fetch(server, f"{site.root}/")
    assert (status, headers["Location"]) == (303, f"{site.root}/nodes")
    assert (await fetch(server, f"{site.root}/nodes"))[0] == 200


async def test_each_server_has_a_token_of_its_own_that_nobody_guesses() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[\w-]{32}", token) for token in tokens)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]", "10.0.0.1", "a@b:c", ""),
        *("evil@127.0.0.1", "evil:x@localhost:80", "localhost/evil", "localhost?x", "localhost#x", "localhost:"),
        *(
            "localhost:http",
            "localhost:80:80",
            "localhost:123456",
            "localhost\\evil",
            "http://localhost",
            "//localhost",
        ),
        *("localhost,evil.example", "localhost evil", "localhost.", "[localhost]", "127.1", "0x7f000001"),
    ],
)
async def test_a_host_that_is_not_the_loopback_is_refused(server: TestServer, site: Site, host: str) -> None:
    status, text, _ = await fetch(server, f"{site.root}/nodes", headers={"Host": host})
    assert status in (400, 421)
    assert "node-0" not in text


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:9", "LOCALHOST"])
async def test_a_forwarded_port_is_no_other_host(server: TestServer, site: Site, host: str) -> None:
    assert (await fetch(server, f"{site.root}/nodes", headers={"Host": host}))[0] == 200


@pytest.mark.parametrize("path", ["/nodes", "/nodes?by=x", "/static/ui.js", "/nowhere"])
async def test_every_answer_forbids_foreign_and_inline_content(server: TestServer, site: Site, path: str) -> None:
    _, _, headers = await fetch(server, f"{site.root}{path}")
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"]) == ("'self'", "'self'")
    assert policy["img-src"] == "'self' data:"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


async def test_a_defect_is_a_page_with_these_headers_too(
    server: TestServer, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(nodes, "heat_map", fail)
    status, text, headers = await fetch(server, f"{site.root}/nodes")
    assert status == 500
    assert "canary" not in text
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "ZeroDivisionError: canary" in capsys.readouterr().err


async def test_the_refusal_itself_has_these_headers(server: TestServer) -> None:
    _, _, headers = await fetch(server, "/nodes")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_form_from_elsewhere_is_refused(server: TestServer, site: Site, headers: dict[str, str]) -> None:
    status, text, _ = await fetch(server, f"{site.root}/nodes", "POST", headers)
    assert status == 403
    assert "own pages only" in text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS"])
async def test_other_methods_are_refused(server: TestServer, site: Site, method: str) -> None:
    assert (await fetch(server, f"{site.root}/nodes", method))[0] == 405


async def test_a_long_address_is_refused(server: TestServer, site: Site) -> None:
    assert (await fetch(server, f"{site.root}/nodes?by={'x' * 5000}"))[0] == 414


def test_the_token_is_in_no_file_that_is_served(site: Site) -> None:
    static = Path(__file__).parents[4] / "secondary_scheduler/views/static"
    assert [file.name for file in static.iterdir() if site.token in file.read_text()] == []
