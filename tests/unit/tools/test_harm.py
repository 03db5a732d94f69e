"""The map of the lines that can do harm: what is found, and that a place outside the map is refused."""

from __future__ import annotations

import pytest

from tools import harm
from tools.harmfunctions import HARMLESS, TABLES, HarmFunction
from tools.harmsites import findings

PATH = "scheduler/engine/planted.py"
EVICT = HarmFunction(f"{PATH}::Evictor.evict", ("write",), "evicts", "by UID")


def planted(body: str, head: str = "async def evict(self, pod):") -> str:
    return f"class Evictor:\n    {head}\n        {body}\n"


@pytest.mark.parametrize(
    ("line", "way"),
    [
        ("await self._client.post(path, body)", "write"),
        ("await self._client.patch(path, body)", "write"),
        ("send(self._client.delete)", "write"),
        ("getattr(self._client, 'put')(path, body)", "write"),
        ("connection.request('DELETE', path)", "write"),
        ("connection.request(method, path)", "write"),
        ("await self._handle.delete_pod(pod)", "ask"),
        ("yield Delete(key, uid, reason)", "ask"),
        ("connection.get(f'/api/v1/namespaces/{namespace}/secrets/{name}')", "secret"),
        ("api_path('v1', 'secrets', namespace=namespace)", "secret"),
        ("headers = {'Authorization': value}", "credential"),
        ("header = f'Bearer {token}'", "credential"),
        ("context.load_cert_chain(file)", "credential"),
        ("request_token(connection, namespace, name, 600)", "credential"),
        ("binding = {'kind': 'ClusterRoleBinding', 'roleRef': role}", "rbac"),
        ("k8s.rbac.v1.Role(name)", "rbac"),
        ("socket.create_connection(address)", "connection"),
        ("urllib.request.urlopen(url)", "connection"),
        ("subprocess.run(['kubectl', 'delete', 'pod'])", "program"),
        ("os.execv(program, arguments)", "program"),
        ("await asyncio.create_subprocess_exec(program)", "program"),
    ],
)
def test_a_place_that_can_do_harm_is_found_with_its_function_and_line(line: str, way: str) -> None:
    (site,) = findings(PATH, planted(line)).sites
    assert (site.line, site.function, site.way) == (3, "Evictor.evict", way)


@pytest.mark.parametrize(
    "line",
    [
        "connection.request('GET', path)",
        "await self._client.get(path)",
        "'''Sends a Bearer token to /secrets/ with Authorization.'''",
        "token_file = '/var/run/secrets/kubernetes.io/serviceaccount/token'",
        "amount = each.request",
        "process: subprocess.Popen[str]",
    ],
)
def test_what_only_looks_like_it_is_not(line: str) -> None:
    assert not findings(PATH, planted(line)).sites


def test_a_place_outside_the_map_is_refused_with_its_line() -> None:
    modules = {PATH: planted("await self._client.post(path, body)")}
    assert not list(harm.problems(modules, {EVICT.place: EVICT}, {}))
    (finding,) = harm.problems(modules, {}, {})
    assert finding.startswith(f"{PATH}:3: self._client.post sends a request that is no GET: ")
    assert "Evictor.evict" in finding


def test_a_function_of_the_map_that_does_something_new_is_refused() -> None:
    modules = {PATH: planted("await self._client.post(path, {'Authorization': value})")}
    assert list(harm.problems(modules, {EVICT.place: EVICT}, {})) == [
        f"{PATH}:3: 'Authorization' puts a credential into a request, makes, takes or checks one, "
        "which Evictor.evict is not said to do"
    ]


@pytest.mark.parametrize("source", ["", planted("return pod")])
def test_a_function_that_does_not_do_it_any_more_leaves_the_map(source: str) -> None:
    (finding,) = harm.problems({PATH: source}, {EVICT.place: EVICT}, {})
    assert finding == f"{PATH}:1: Evictor.evict does not do it any more: write"


def test_a_function_without_places_of_its_own_must_exist() -> None:
    gate = HarmFunction(f"{PATH}::Evictor.may_evict", (), "lets it begin", "only while it leads")
    assert list(harm.problems({PATH: ""}, {gate.place: gate}, {})) == [f"{PATH}:1: there is no Evictor.may_evict"]
    assert not list(harm.problems({PATH: planted("return True", "def may_evict(self):")}, {gate.place: gate}, {}))


def test_an_excuse_that_nothing_needs_is_refused() -> None:
    excuse = {f"{PATH}::Evictor.evict": "looks into what was read"}
    assert not list(harm.problems({PATH: planted("kind == 'Secret'")}, {}, excuse))
    assert list(harm.problems({PATH: ""}, {}, excuse)) == [f"{PATH}:1: Evictor.evict has nothing to be excused"]


def test_a_resource_of_the_pulumi_program_is_listed_by_its_kind() -> None:
    ((kind, site),) = findings(PATH, planted("k8s.apps.v1.Deployment(name)", "def _workload(self):")).resources
    assert (kind, site.function, site.line) == ("Deployment", "Evictor._workload", 3)


def test_every_place_of_this_project_is_on_the_map_once() -> None:
    functions = {function.place: function for table in TABLES.values() for function in table}
    assert len(functions) == sum(map(len, TABLES.values()))
    assert not functions.keys() & HARMLESS.keys()
    modules = harm.production()
    assert not list(harm.problems(modules, functions, HARMLESS))
    assert not list(harm.unused_collections(modules))


def test_the_page_keeps_what_stands_around_the_map() -> None:
    text = f"before\n{harm.BEGIN}old\n{harm.END}after\n"
    assert harm.page(text, "new\n") == f"before\n{harm.BEGIN}\nnew\n\n{harm.END}after\n"
