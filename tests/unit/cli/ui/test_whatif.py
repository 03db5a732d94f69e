"""What `ui` says would change with other weights or args, against simulations of the same configurations from files."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from aiohttp.test_utils import TestClient, TestServer

from scheduler.config import Configuration, differences, load_configuration
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui import whatif
from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.cli.ui.reading import read_page_model
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.runs import Limits
from tests.support.pagemodels import write_page_model
from tests.support.simulating import run

PROFILE = "secondary-scheduler"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_page_model(tmp_path_factory.mktemp("page_model"), 30, 40)


@pytest.fixture(scope="module")
def page_model(files: dict[str, Path]) -> PageModel:
    return read(files)


@pytest.fixture
async def client(page_model: PageModel) -> AsyncIterator[tuple[TestClient, Site]]:
    site = Site(page_model)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        yield client, site


def read(files: dict[str, Path], config: Path | None = None) -> PageModel:
    return read_page_model(SnapshotRequest([str(files["snapshot"])], config or files["config"]), lambda line: None)


async def post(client: tuple[TestClient, Site], **fields: str) -> tuple[int, str]:
    session, site = client
    origin = str(session.make_url("/")).rstrip("/")
    response = await session.post(
        f"{site.root}/what-if",
        data={name.replace("__", ":"): value for name, value in fields.items()},
        headers={"Origin": origin, "Sec-Fetch-Site": "same-origin"},
    )
    return response.status, await response.text()


def visible(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text.partition("<main")[2]).split())


def nodes_of(page_model: PageModel) -> dict[str, str | None]:
    return {decision.pod: decision.node for decision in page_model.run.decisions}


def index_of(page_model: PageModel, plugin: str, label: str) -> str:
    form = whatif.form_of(page_model.configuration, PROFILE, {})
    return next(field.name for field in form.args[plugin] if field.label == label).rpartition(":")[2]


def test_the_configuration_with_all_defaults_does_the_same(page_model: PageModel) -> None:
    again = whatif.changed_configuration(
        page_model.configuration, whatif.form_of(page_model.configuration, PROFILE, {})
    )
    assert differences(page_model.configuration, again) == []


async def test_a_changed_weight_moves_the_pods_that_it_moves_in_a_file(
    files: dict[str, Path], page_model: PageModel, client: tuple[TestClient, Site], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(files["config"].read_text().replace("weight: 10", "weight: 1"))
    expected = nodes_of(read(files, config))
    moved = {key for key, node in nodes_of(page_model).items() if expected[key] != node}
    assert moved
    status, text = await post(client, weight__TargetLoadPacking="1")
    assert status == 200
    assert f"{len(moved)} pods of 40 would fare differently" in visible(text)
    rows = re.findall(r'/decisions/\d+">([^<]+)</a></th><td[^>]*>.*?</td><td[^>]*>(?:<a[^>]*>([^<]*)|<span)', text)
    assert dict(rows) == {key: expected[key] or "" for key in moved}
    assert "profile secondary-scheduler: TargetLoadPacking weight 10 -&gt; 1" in visible(text)


async def test_a_changed_argument_moves_pods_and_the_balance(
    files: dict[str, Path], page_model: PageModel, client: tuple[TestClient, Site], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(files["config"].read_text().replace("targetUtilization: 50", "targetUtilization: 90"))
    changed = read(files, config)
    index = index_of(page_model, "TargetLoadPacking", "targetUtilization")
    _, text = await post(client, **{f"arg__TargetLoadPacking__{index}": "90"})
    spread = changed.run.after.shares["requested", "cpu"].std()
    assert re.search(rf"Requests of CPU [\d.]+ % [\d.]+ % [\d.]+ % {spread:.2f} %", visible(text))
    number = sum(nodes_of(changed)[key] != node for key, node in nodes_of(page_model).items())
    assert f"{number} pods of 40 would fare differently" in visible(text)


async def test_where_no_pod_waits_those_that_run_are_compared_as_plan_does(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 30, 0)
    still = read(files)
    assert not still.run.decisions
    config = tmp_path / "changed.yaml"
    config.write_text(files["config"].read_text().replace("weight: 10", "weight: 1"))
    planned = run(
        *("plan", "--old", files["config"], "--new", config, "--snapshot", files["snapshot"]),
        *("--over", "all", "-o", "json"),
    )
    document = json.loads(planned.out)
    moved, pods = len(document["differences"]), document["counts"]["pods"]
    assert moved
    site = Site(still)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as session:
        _, text = await post((session, site), weight__TargetLoadPacking="1")
        assert f"{moved} pods of {pods} would fare differently" in visible(text)
        assert "The pods that run are compared, too" in visible(text)
        for kind, title in (("requests", "Requests"), ("estimatedLoad", "Estimated load")):
            old, new = (f"{document[side][kind]['cpu']['stddev']:.2f}" for side in ("old", "new"))
            assert re.search(rf"{title} of CPU [\d.]+ % [\d.]+ % {old} % {new} %", visible(text))
        assert "/decisions/" not in text.partition("Pods that fare differently")[2].partition("</table>")[0]
        status, text = await post((session, site), weight__TargetLoadPacking="1", over="pending")
        assert "No pod was compared" in visible(text)
        assert "Choose the pods that run, too" in visible(text)
        assert status == 200
        assert (await post((session, site), weight__TargetLoadPacking="1", over="none"))[0] == 400


async def test_the_numbers_agree_with_the_table(page_model: PageModel, client: tuple[TestClient, Site]) -> None:
    index = index_of(page_model, "NodeResourcesFit", "scoringStrategy.type")
    fields = {f"arg__NodeResourcesFit__{index}": "MostAllocated", "weight__NodeResourcesFit": "50"}
    _, text = await post(client, **fields)
    cells = re.findall(r'</a></th><td class="name">(<a|<span).*?</td><td class="name">(<a|<span)', text)
    assert cells
    moved, gained, lost = (cells.count(pair) for pair in (("<a", "<a"), ("<span", "<a"), ("<a", "<span")))
    assert f"On another node {moved} Would get a node {gained} Would lose it {lost}" in visible(text)


async def test_the_form_begins_with_what_the_configuration_sets(client: tuple[TestClient, Site]) -> None:
    text = await (await client[0].get(f"{client[1].root}/what-if")).text()
    first, _, others = text.partition("<details")
    assert re.findall(r'name="weight:(\w+)"', first) == ["TargetLoadPacking"]
    assert set(re.findall(r'name="arg:(\w+):', first)) == {"TargetLoadPacking"}
    assert 'name="weight:TaintToleration"' in others
    assert not others.startswith(' id="others" open')


async def test_a_changed_input_of_another_plugin_stays_in_sight(client: tuple[TestClient, Site]) -> None:
    _, text = await post(client, profile=PROFILE, weight__TaintToleration="4")
    assert '<details id="others" open>' in text


async def test_where_nothing_is_set_every_plugin_is_in_the_form(files: dict[str, Path], tmp_path: Path) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    configuration = read(files, plain).configuration
    form = whatif.form_of(configuration, configuration.scheduler_names[0], {})
    assert {field.label for field in form.weights} <= form.chosen
    assert form.args.keys() <= form.chosen


async def test_nothing_changed_is_said(client: tuple[TestClient, Site]) -> None:
    status, text = await post(client, weight__TargetLoadPacking="10")
    assert status == 200
    assert "Nothing is changed: change a value first." in visible(text)


@pytest.mark.parametrize(
    ("plugin", "label", "value", "message"),
    [
        ("", "TargetLoadPacking", "0", "TargetLoadPacking weight: a number from 1 to 1,000,000"),
        ("", "TargetLoadPacking", "ten", "TargetLoadPacking weight: a number from 1"),
        ("TargetLoadPacking", "targetUtilization", "many", "TargetLoadPacking targetUtilization: a whole number"),
        ("TargetLoadPacking", "targetUtilization", "1000", "targetUtilization"),
        ("NodeResourcesFit", "scoringStrategy.type", "Worst", "scoringStrategy"),
        ("TargetLoadPacking", "defaultRequestsMultiplier", "x" * 201, "at most 200 characters"),
        ("InterPodAffinity", "ignorePreferredTermsOfExistingPods", "maybe", "true or false"),
    ],
)
async def test_a_value_that_cannot_be_is_refused_with_its_place_and_kept_in_the_form(
    page_model: PageModel, client: tuple[TestClient, Site], plugin: str, label: str, value: str, message: str
) -> None:
    name = f"arg__{plugin}__{index_of(page_model, plugin, label)}" if plugin else f"weight__{label}"
    status, text = await post(client, **{name: value})
    assert status == 400
    assert "This configuration is not valid" in visible(text)
    assert message in visible(text)
    if plugin != "InterPodAffinity":
        assert f'value="{value}"' in text


def test_the_form_has_no_argument_that_changes_no_decision(files: dict[str, Path], page_model: PageModel) -> None:
    def labels(configuration: Configuration) -> dict[str, set[str]]:
        args = whatif.form_of(configuration, PROFILE, {}).args
        return {plugin: {field.label.partition(".")[0].partition("[")[0] for field in args[plugin]} for plugin in args}

    shown = labels(page_model.configuration)
    assert "metricProvider" not in shown["TargetLoadPacking"]
    assert "targetUtilization" in shown["TargetLoadPacking"]
    assert "scoringStrategy" in shown["NodeResourcesFit"]
    text = files["config"].read_text()
    no_score = (
        "    score: {disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]}\n    multiPoint:"
    )
    balanced = "      disabled:\n      - {name: NodeResourcesBalancedAllocation}\n"
    assert balanced in text
    unscored = load_configuration(text.replace(balanced, "").replace("    multiPoint:", no_score), source="c")
    assert "NodeResourcesBalancedAllocation" in unscored.profile(PROFILE).enabled
    assert "NodeResourcesBalancedAllocation" not in labels(unscored)
    assert "scoringStrategy" not in labels(unscored).get("NodeResourcesFit", set())


async def test_unknown_fields_and_profiles_do_nothing(client: tuple[TestClient, Site]) -> None:
    status, text = await post(client, weight__Nothing="3", arg__TargetLoadPacking__999="1", arg__x="")
    assert (status, "Nothing is changed" in text) == (200, True)
    assert (await post(client, profile="nobody"))[0] == 400


async def test_a_large_form_is_refused(client: tuple[TestClient, Site]) -> None:
    assert (await post(client, filler="x" * 70_000))[0] == 413


async def test_a_second_computation_waits_for_nobody(client: tuple[TestClient, Site]) -> None:
    async with client[1].working:
        status, text = await post(client, weight__TargetLoadPacking="2")
    assert status == 503
    assert "another computation is under way" in text.casefold()


def test_a_secret_is_no_field_of_the_form_and_stays_in_the_configuration(files: dict[str, Path]) -> None:
    text = files["config"].read_text().replace("type: Prometheus,", "type: Prometheus, token: secret-canary,")
    configuration = load_configuration(
        yaml.safe_load(text), source="config", allow_token_in_config_map=True, external_load=True
    )
    form = whatif.form_of(configuration, PROFILE, {"weight:TargetLoadPacking": "3"})
    values = [field.value for fields in form.args.values() for field in fields]
    assert "50" in values
    assert not [value for value in values if "canary" in value]
    changed = whatif.changed_configuration(configuration, form)
    assert changed.profile(PROFILE).plugin_args["TargetLoadPacking"].metric_provider.token == "secret-canary"


def test_a_run_ends_in_time_and_says_which_pods_are_left(page_model: PageModel) -> None:
    def run(limits: Limits, stopped: threading.Event | None = None) -> list[str]:
        is_stopped = stopped.is_set if stopped is not None else lambda: False
        result = page_model.decide(page_model.configuration, limits, is_stopped)
        assert len(result.decisions) == 40
        messages = [each.message or "" for each in result.decisions]
        return [message for message in messages if message.startswith("not decided: ")]

    assert run(Limits(0.0, 60.0)) == []
    assert len(run(Limits(0.0, 0.0))) == 39
    stopped = threading.Event()
    stopped.set()
    assert len(run(Limits(0.0, 60.0), stopped)) == 39


def test_two_runs_on_one_snapshot_give_the_same(page_model: PageModel) -> None:
    again = page_model.decide(page_model.configuration, Limits(0.0, 60.0), lambda: False)
    assert {each.pod: each.node for each in again.decisions} == nodes_of(page_model)
    assert not whatif.compare(page_model.run, again).moves
