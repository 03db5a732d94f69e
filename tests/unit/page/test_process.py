"""The command of the image: its options, its two servers over TLS, and what it reads of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import ClientSession, TCPConnector

from secondary_scheduler.clustersnapshot.reading import RESOURCES
from secondary_scheduler.page.app import EXIT_INVALID, ServingError, main, serve
from secondary_scheduler.page.options import ListenAddress, parse_options
from secondary_scheduler.page.rights import NamespacedName, access_to
from secondary_scheduler.page.sharing import PAGE_RESOURCES
from tests.support.rawclient import unchecked_tls
from tests.support.servedpage import page_options, page_process
from tests.support.sharedpagemodels import shared_page_model
from tests.support.visiting import visiting

LEAST = ["--config", "config.yaml", "--config-map", "scheduling/config-1", "--host", "Page.Example.com"]


def test_the_options_have_defaults() -> None:
    options = parse_options(LEAST)
    assert options.hosts == {"page.example.com"}
    assert (options.listen, options.probes) == (ListenAddress("", 8443), ListenAddress("", 8081))
    assert options.config_map == NamespacedName("scheduling", "config-1")
    assert (options.certificate, options.lease) == (None, None)
    assert parse_options([*LEAST, "--lease", "scheduling/ours"]).lease == NamespacedName("scheduling", "ours")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":1", ListenAddress("", 1)),
        ("10.1.2.3:8443", ListenAddress("10.1.2.3", 8443)),
        ("[fd00::1]:8443", ListenAddress("fd00::1", 8443)),
        ("fd00::1:8443", ListenAddress("fd00::1", 8443)),
    ],
)
def test_it_listens_where_it_is_told_to(text: str, address: ListenAddress) -> None:
    assert parse_options([*LEAST, "--listen", text]).listen == address


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: --config, --config-map, --host"),
        ([*LEAST, "--host", "https://page"], "is no host name"),
        ([*LEAST, "--listen", "8443"], "is not an address and a port"),
        ([*LEAST, "--listen", ":99999"], "is not an address and a port"),
        ([*LEAST, "--config-map", "name"], "is not NAMESPACE/NAME"),
        ([*LEAST, "--lease", "a/b/c"], "is not NAMESPACE/NAME"),
        ([*LEAST, "--tls-cert-file", "x"], "give both or none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_usage_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as raised:
        parse_options(arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("text", "message"), [(None, "config.yaml: No such file"), ("kind: Pod\n", "config.yaml")])
def test_a_configuration_that_cannot_be_used_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    file = tmp_path / "config.yaml"
    if text is not None:
        file.write_text(text)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )
    arguments = [*LEAST[2:], "--config", str(file), "--kubeconfig", str(kubeconfig)]
    assert main(arguments) == EXIT_INVALID
    assert message in capsys.readouterr().err


def test_the_rights_that_are_asked_about_are_those_of_the_decision_record() -> None:
    access = access_to(NamespacedName("scheduling", "config-1"), NamespacedName("scheduling", "mine"))
    assert access("nodes") == {"resourceAttributes": {"verb": "get", "resource": "nodes"}}
    assert access("pods") == {"resourceAttributes": {"verb": "list", "resource": "pods"}}
    assert access("pods/shop") == {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "shop"}}
    assert access("configuration") == {
        "resourceAttributes": {
            "verb": "get",
            "resource": "configmaps",
            "namespace": "scheduling",
            "name": "config-1",
        }
    }


def test_it_reads_no_more_than_a_snapshot_holds() -> None:
    assert {resource.kind for resource in RESOURCES} - {resource.kind for resource in PAGE_RESOURCES} == {
        "Deployment",
        "PodMetrics",
    }
    assert not {"Secret", "ConfigMap"} & {resource.kind for resource in PAGE_RESOURCES}


async def test_page_and_probes_are_served_over_tls_on_ports_of_their_own() -> None:
    async with (
        visiting(shared_page_model()) as visit,
        page_process(visit.site, visit.lines) as (page, probes),
        ClientSession(connector=TCPConnector(ssl=unchecked_tls())) as session,
    ):

        async def status(port: int, path: str, scheme: str = "https") -> int:
            headers = {"Host": "page.example.com"}
            async with session.get(f"{scheme}://127.0.0.1:{port}{path}", headers=headers) as response:
                return response.status

        assert await status(page, "/login") == 200
        assert await status(page, "/livez") == 404
        assert [await status(probes, path) for path in ("/livez", "/readyz", "/login", "/nodes", "/metrics")] == [
            *(200, 200),
            *(404, 404, 404),
        ]
        for port in (page, probes):
            with pytest.raises(Exception, match=r"disconnected|reset|Bad status"):
                await status(port, "/livez", "http")


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_certificate_that_cannot_be_used_is_one_line(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "tls.crt"
    if content is not None:
        file.write_text(content)
    async with visiting(shared_page_model()) as visit:
        with pytest.raises(ServingError, match="--tls-cert-file, --tls-private-key-file: serving certificate"):
            await serve(visit.site, page_options(certificate=file), visit.lines.append)
