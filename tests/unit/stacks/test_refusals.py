"""Settings that are refused, and the message. tests/components checks that the engine stops."""

# ruff: noqa: E501 - a case per line reads better than one per four
from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler import __version__
from scheduler.catalog import ExtensionPoint
from scheduler.config import ConfigurationError
from stacks.checking import check
from stacks.settings import OperatorSettings

TOKEN = "canary-token-31415926"
GOOD: dict[str, Any] = {
    "cluster": {"clusterIdentifier": "test"},
    "schedulerImage": "registry.example.com/secondary-scheduler/kube-scheduler:1",
    "operatorImage": "registry.example.com/operator@sha256:" + "0" * 64,
    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 2, "args": {"targetUtilization": 40}}]}},
    "metricProvider": {
        "type": "Prometheus",
        "address": "https://prometheus:9090",
        "credentials": {"token": {"fromFileInEnv": "TOKEN_FILE"}, "caFile": {"fromFileInEnv": "CA_FILE"}},
    },
}
GO_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
OPEN_SOURCE = {"type": "Prometheus", "address": "https://prometheus:9090"}
ABSENT = object()
PLUGIN = "plugins.score.enabled[0]"
CREDENTIALS = "metricProvider.credentials"
WATCHER = "metricProvider.loadWatcher"
OUR_IMAGE = f"registry.example.com/secondary-scheduler/operator:{__version__}"

# change to GOOD (path, new value), path that is named, words that the line must have
REFUSALS = {
    "unknown key": ("schedulerImge", "x:1", "schedulerImge", ["unknown key", 'did you mean "schedulerImage"?']),
    "key in snake case": ("log_level", "Normal", "log_level", ['did you mean "logLevel"?']),
    "no scheduler image": ("schedulerImage", ABSENT, "schedulerImage", ["missing", "pulumi config set schedulerImage"]),
    "empty scheduler image": ("schedulerImage", "", "schedulerImage", ["missing"]),
    "image with a blank": ("schedulerImage", "a b", "schedulerImage", ['"a b" is not an image', "repository:tag"]),
    "image in capitals": ("operatorImage", "Example/Image:1", "operatorImage", ["is not an image"]),
    "image that is a mapping": ("schedulerImage", {"name": "x"}, "schedulerImage", ["is not an image"]),
    "empty identifier": ("cluster.clusterIdentifier", "", "cluster.clusterIdentifier", ["must not be empty"]),
    "number as identifier": ("cluster.clusterIdentifier", 5, "cluster.clusterIdentifier", ["must be a string, not 5; put it in quotes"]),
    "unknown key of the cluster": ("cluster.kubeconfig", "x", "cluster.kubeconfig", ["allowed: clusterIdentifier, con"]),
    "identifier that is too long": (
        "cluster.clusterIdentifier", "x" * 254, "cluster.clusterIdentifier", ["must have at most 253 characters, not 254"],
    ),
    "version of the cluster without quotes": (
        "cluster.kubernetesVersion", 1.3, "cluster.kubernetesVersion", ["must be a string, not 1.3", "put it in quotes"],
    ),
    "version of the cluster that is none": (
        "cluster.openshiftVersion", "four", "cluster.openshiftVersion", ['"four" is not a version', 'such as "1.34"'],
    ),
    "server that is none": ("cluster.server", "api:6443", "cluster.server", ["is not the address of an API server", "https://"]),
    "server of another cluster": (
        "cluster.server", "https://api.two.example:6443", "cluster.server", ["points to another cluster than test"],
    ),
    "context that does not exist": ("cluster.context", "two", "cluster.context", ['no context "two"', "it has: one"]),
    "cluster that is text": ("cluster", "prod", "cluster", ['must be a map, not "prod"']),
    "the cluster's own scheduler": (
        "schedulerName", "default-scheduler", "schedulerName", ["the cluster's own", "allowDefaultSchedulerName"],
    ),
    "scheduler name that is too long": ("schedulerName", "x" * 254, "schedulerName", ["at most 253"]),
    "scheduler name that is a list": ("schedulerName", ["x"], "schedulerName", ["must consist of lower case"]),
    "scheduler name in capitals": ("schedulerName", "Mine", "schedulerName", ['"Mine" must consist of lower case']),
    "log level that is none": ("logLevel", "debug", "logLevel", ["allowed: Normal, Debug, Trace", 'mean "Debug"?']),
    "catalog without a catalogue": ("installMode", "catalog", "operator", ["must hold catalog", "image or an address"]),
    "operator of a flavour that is none": (
        "operator", {"flavour": "theirs"}, "operator.flavour", ["allowed: ours, upstream"],
    ),
    "catalogue that is neither image nor address": (
        "operator", {"catalog": {"image": "a:1", "address": "b:1"}}, "operator.catalog", ["either image or address"],
    ),
    "address of a catalogue with a scheme": (
        "operator", {"catalog": {"address": "grpc://b:1"}}, "operator.catalog.address", ["HOST:PORT", "without a scheme"],
    ),
    "approval that is none": (
        "operator", {"approval": "manual"}, "operator.approval", ["allowed: Automatic, Manual", 'mean "Manual"?'],
    ),
    "starting CSV in camel case": ("operator", {"startingCsv": "x"}, "operator.startingCsv", ['mean "startingCSV"?']),
    "optional object that is none": (
        "optionalObjects", {"flowSchema": False}, "optionalObjects.flowSchema", ['did you mean "flowSchemas"?'],
    ),
    "runbooks at no address": ("alerts", {"runbookUrl": "docs/runbooks.md"}, "alerts.runbookUrl", ["https://HOST/PATH"]),
    "runbooks with a section": (
        "alerts", {"runbookUrl": "https://git.example.com/runbooks.md#down"}, "alerts.runbookUrl", ["fragment"],
    ),
    "no replica": ("replicas", "0", "replicas", ["must be at least 1, not 0"]),
    "replicas that are no number": ("replicas", "many", "replicas", ["must be an integer"]),
    "time to become ready that is too short": ("readySeconds", "1", "readySeconds", ["must be at least 10, not 1"]),
    "install mode that is none": ("installMode", "helm", "installMode", ["not allowed; allowed: manifests, direct"]),
    "check that is none": (
        "compatibilityCheck", "failed", "compatibilityCheck", ["allowed: warn, fail, off", 'did you mean "fail"?'],
    ),
    "flavour that is none": (
        "flavour", "scheduler-plugins@0.99", "flavour", ['"scheduler-plugins@0.99" is not known', "did you mean"],
    ),
    "file elsewhere": ("configurationFile", "/etc/scheduler.yaml", "configurationFile", ["relative to the folder"]),
    "profiles that are a mapping": ("profiles", {"a": {}}, "profiles", ["must be a list, not a map"]),
    "extra plugins that are text": ("extraPlugins", "Mine", "extraPlugins", ['must be a list, not "Mine"']),
    "extra plugins of our own image": (
        "extraPlugins", [{"name": "Mine", "points": ["score"]}], "extraPlugins", ["this one is ours", "flavour: custom"],
    ),
    "status of a kind that has none": (
        "operator", {"statusOf": ["pods"]}, "operator.statusOf[0]", ["not allowed; allowed: podgroups, elasticquotas"],
    ),
    "an instance that is the stack's own": (
        "operator", {"instances": [{"name": "cluster"}]}, "operator.instances[0]", ["must hold a namespace, a name or"],
    ),
    "unknown key of an instance": (
        "operator", {"instances": [{"nam": "gpu"}]}, "operator.instances[0].nam", ['did you mean "name"?'],
    ),
    "protect that is neither": ("protect", "yes", "protect", ["must be true or false", 'not "yes"']),
    "plugins that are a list": ("plugins", ["TargetLoadPacking"], "plugins", ["must be a map, not a list"]),
    "extension point that is none": ("plugins.scoring", {}, "plugins.scoring", ["unknown key", 'did you mean "score"?']),
    "plugin at a point it does not extend": (
        "plugins.filter", {"enabled": [{"name": "PrioritySort"}]}, "plugins.filter.enabled[0].name", ["it extends queueSort"],
    ),
    "weight where nothing is weighed": (
        "plugins.filter", {"enabled": [{"name": "NodeName", "weight": 2}]}, "plugins.filter.enabled[0].weight",
        ["unknown key; allowed: args, name"],
    ),
    "args given at two points": (
        "plugins.multiPoint", {"enabled": [{"name": "TargetLoadPacking", "args": {"targetUtilization": 50}}]},
        f"{PLUGIN}.args", ["already has args at plugins.multiPoint.enabled[0]"],
    ),
    "no plugin left that sorts": (
        "plugins.queueSort", {"disabled": ["PrioritySort"]}, "plugins.queueSort", ["only one queue sort plugin", "PrioritySort"],
    ),
    "collector that is no URL": ("tracing", {"endpoint": "collector:4317"}, "tracing.endpoint", ["is not a URL", "HTTP"]),
    "collector with a password": (
        "tracing", {"endpoint": f"http://me:{TOKEN}@collector:4318"}, "tracing.endpoint", ["headersSecret"],
    ),
    "collector without an address": ("tracing", {"samplingRatePerMillion": 5}, "tracing.endpoint", ["missing"]),
    "more traces than attempts": (
        "tracing", {"endpoint": "http://c:4318", "samplingRatePerMillion": 2_000_000}, "tracing.samplingRatePerMillion",
        ["must be at most 1000000"],
    ),
    "namespace that is none": (
        "scrapeNamespaces", ["monitoring", "Not_A_Name"], "scrapeNamespaces[1]", ["is not the name of a namespace", "lower case"],
    ),
    "namespace with a dot": ("scrapeNamespaces", ["a.b"], "scrapeNamespaces[0]", ["is not the name of a namespace"]),
    "namespace that is a number": ("scrapeNamespaces", [5], "scrapeNamespaces[0]", ["must be a string, not 5"]),
    "too many namespaces": (
        "scrapeNamespaces", [f"n{number}" for number in range(33)], "scrapeNamespaces", ["must have at most 32 items, not 33"],
    ),
    "compatibility that is none": ("compatibility", "strict", "compatibility", ["allowed: safe, upstream"]),
    "CRDs that are neither": ("installPluginCrds", "maybe", "installPluginCrds", ["must be true or false"]),
    "enabled that is a mapping": (
        "plugins.score.enabled", {"name": "x"}, "plugins.score.enabled", ["must be a list, not a map"],
    ),
    "token beside the address": (
        "metricProvider.token", TOKEN, "metricProvider.token",
        ["metricProvider.credentials.token", "pulumi config set --secret prometheusToken"],
    ),
    "token in the ConfigMap of an image that reads a Secret": (
        f"{CREDENTIALS}.allowTokenInConfigMap", True, f"{CREDENTIALS}.allowTokenInConfigMap", ["is not needed"],
    ),
    "token in the ConfigMap that only the cluster knows": (
        CREDENTIALS, {"existingSecret": {"name": "x"}, "allowTokenInConfigMap": True}, CREDENTIALS, ["is only for token"],
    ),
    "token for an image that reads none": ("schedulerImage", GO_IMAGE, CREDENTIALS, ["choose one of two", "metricProvider.loadWatcher: {image: ", "allowTokenInConfigMap: true"]),
    "load-watcher for our image": (WATCHER, {"image": OUR_IMAGE}, WATCHER, ["is not needed", "remove it"]),
    "load-watcher that is no mapping": (WATCHER, True, WATCHER, ["must be a map"]),
    "plugin that does not exist": (
        f"{PLUGIN}.name", "TargetLoadPackin", f"{PLUGIN}.name", ['"TargetLoadPackin"', "TargetLoadPacking"],
    ),
    "plugin that does not score": ("plugins.score.enabled", [{"name": "NodeName"}], f"{PLUGIN}.name", ["NodeName", "ScorePlugin"]),
    "plugin without a name": (f"{PLUGIN}.name", ABSENT, f"{PLUGIN}.name", ["missing"]),
    "plugin given twice": (
        "plugins.score.enabled", [{"name": "NodeAffinity"}] * 2, "plugins.score.enabled[1]", ["NodeAffinity"],
    ),
    "weight of zero": (f"{PLUGIN}.weight", 0, f"{PLUGIN}.weight", ["must be at least 1, not 0"]),
    "weight over a hundred": (f"{PLUGIN}.weight", 101, f"{PLUGIN}.weight", ["must be at most 100, not 101"]),
    "weight in quotes": (f"{PLUGIN}.weight", "5", f"{PLUGIN}.weight", ['must be an integer, not "5"']),
    "weight with a fraction": (f"{PLUGIN}.weight", 1.5, f"{PLUGIN}.weight", ["must be an integer, not 1.5"]),
    "weight that is a boolean": (f"{PLUGIN}.weight", True, f"{PLUGIN}.weight", ["must be an integer, not true"]),
    "misspelt key of a plugin": (f"{PLUGIN}.wieght", 5, f"{PLUGIN}.wieght", ['did you mean "weight"?']),
    "arg out of range": (
        f"{PLUGIN}.args.targetUtilization", 200, f"{PLUGIN}.args.targetUtilization", ["200 is not in the range 1 to 100"],
    ),
    "arg of the wrong type": (
        f"{PLUGIN}.args.targetUtilization", "forty", f"{PLUGIN}.args.targetUtilization", ["forty"],
    ),
    "arg that does not exist": (
        f"{PLUGIN}.args.targetUtilisation", 40, f"{PLUGIN}.args.targetUtilisation", ["targetUtilization"],
    ),
    "arg that is no quantity": (
        f"{PLUGIN}.args.defaultRequests", {"cpu": "much"}, f"{PLUGIN}.args.defaultRequests.cpu", ['"much"'],
    ),
    "args that are a list": (f"{PLUGIN}.args", [1], f"{PLUGIN}.args", ["must be a map, not a list"]),
    "metric source in args": (
        f"{PLUGIN}.args.metricProvider", {"type": "Prometheus"}, f"{PLUGIN}.args", ["once, under the key metricProvider"],
    ),
    "token in args": (f"{PLUGIN}.args.token", TOKEN, f"{PLUGIN}.args", ["must not hold token", "ConfigMap"]),
    "token deep in args": (f"{PLUGIN}.args.x", {"apiToken": TOKEN}, f"{PLUGIN}.args", ["must not hold apiToken"]),
    "disabled plugin that does not exist": (
        "plugins.score.disabled", ["NodeResourceFit"], "plugins.score.disabled[0]", ["NodeResourceFit", "NodeResourcesFit"],
    ),
    "no metric source for a plugin that reads load": (
        "metricProvider", ABSENT, "metricProvider", ["missing", "TargetLoadPacking scores by load"],
    ),
    "empty metric source": ("metricProvider", {}, "metricProvider", ["missing"]),
    "metric source that is none": (
        "metricProvider.type", "Datadog", "metricProvider.type", ['"Datadog" is not allowed; allowed: Prometheus'],
    ),
    "no address": ("metricProvider.address", ABSENT, "metricProvider", ["must hold address"]),
    "metrics server with an address": (
        "metricProvider.type", "KubernetesMetricsServer", "metricProvider", ["neither address nor credentials"],
    ),
    "SignalFx without a token": (
        "metricProvider", {"type": "SignalFx"}, "metricProvider", ["must hold credentials"],
    ),
    "address without scheme": ("metricProvider.address", "prometheus:9090", "metricProvider.address.url", ["is not a URL"]),
    "address with a password": (
        "metricProvider.address", f"https://me:{TOKEN}@prometheus", "metricProvider.address.url", ["user or password"],
    ),
    "address that is a number": ("metricProvider.address", 9090, "metricProvider.address", ["must be a URL or {fromEnv"]),
    "address from a variable that is not set": (
        "metricProvider.address", {"fromEnv": "NOWHERE"}, "metricProvider.address.fromEnv", ["NOWHERE is not set"],
    ),
    "address from a variable that holds none": (
        "metricProvider.address", {"fromEnv": "WORD"}, "metricProvider.address.fromEnv", ["WORD is not a URL"],
    ),
    "window that is no duration": ("metricProvider.window", "soon", "metricProvider.window", ['"soon"', "15m"]),
    "refresh of zero": ("metricProvider.refreshSeconds", 0, "metricProvider.refreshSeconds", ["at least 1"]),
    "age below the refresh": ("metricProvider.maxAgeSeconds", 5, "metricProvider.maxAgeSeconds", ["refreshSeconds (30)"]),
    "literal token": (f"{CREDENTIALS}.token", TOKEN, f"{CREDENTIALS}.token", ["a literal token is refused", "secretKey"]),
    "token from nowhere": (f"{CREDENTIALS}.token", {}, f"{CREDENTIALS}.token", ["either secretKey or fromFileInEnv"]),
    "token under a key of one's own": (
        f"{CREDENTIALS}.token", {"secretKey": "mine"}, f"{CREDENTIALS}.token.secretKey", ["allowed: prometheusToken"],
    ),
    "token under a key that is not set": (
        f"{CREDENTIALS}.token", {"secretKey": "prometheusToken"}, "prometheusToken", ["missing", "config set --secret"],
    ),
    "token file that is not exported": (
        f"{CREDENTIALS}.token", {"fromFileInEnv": "NOWHERE"}, f"{CREDENTIALS}.token.fromFileInEnv", ["NOWHERE is not set"],
    ),
    "token file that does not exist": (
        f"{CREDENTIALS}.token", {"fromFileInEnv": "MISSING_FILE"}, f"{CREDENTIALS}.token.fromFileInEnv",
        ["cannot read", "(from MISSING_FILE)", "No such file"],
    ),
    "token file that is empty": (
        f"{CREDENTIALS}.token", {"fromFileInEnv": "EMPTY_FILE"}, f"{CREDENTIALS}.token.fromFileInEnv", ["is empty"],
    ),
    "literal certificate": (f"{CREDENTIALS}.caFile", "-----BEGIN", f"{CREDENTIALS}.caFile", ["{fromFileInEnv: VARIABLE}"]),
    "two ways at once": (
        f"{CREDENTIALS}.existingSecret", {"name": "x"}, CREDENTIALS, ["exactly one of token, existingSecret"],
    ),
    "credentials without a way": (CREDENTIALS, {}, CREDENTIALS, ["exactly one of token"]),
    "certificate without a token": (
        CREDENTIALS, {"serviceAccount": {}, "caFile": {"fromFileInEnv": "CA_FILE"}}, CREDENTIALS, ["caFile is only for token"],
    ),
    "name that no Secret can have": (
        CREDENTIALS, {"existingSecret": {"name": "My_Secret"}}, f"{CREDENTIALS}.existingSecret.name", ["lower case"],
    ),
    "key that no Secret can have": (
        CREDENTIALS, {"existingSecret": {"name": "s", "key": "a/b"}}, f"{CREDENTIALS}.existingSecret.key", ["must match"],
    ),
}  # fmt: skip


@pytest.fixture
def environment(tmp_path: Path, kubeconfig: Path) -> dict[str, str]:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca").write_text("certificate")
    (tmp_path / "empty").write_text("\n")
    return {
        "TOKEN_FILE": str(tmp_path / "token"),
        "CA_FILE": str(tmp_path / "ca"),
        "EMPTY_FILE": str(tmp_path / "empty"),
        "MISSING_FILE": str(tmp_path / "missing"),
        "WORD": "prometheus",
        "KUBECONFIG": str(kubeconfig),
    }


@pytest.mark.parametrize(("path", "value", "named", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_problem_is_one_line_with_key_and_remedy(
    path: str, value: object, named: str, words: list[str], environment: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(changed(path, value)), set(), environment)
    (problem,) = refused.value.problems
    assert problem.path == named
    for word in words:
        assert word in str(problem)
    assert "\n" not in str(problem)
    assert TOKEN not in str(problem)


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ({"operator": {"flavour": "upstream"}}, "needs this project's operator, or mode direct"),
        ({"optionalObjects": {"networkPolicy": False}}, "has no effect: networkPolicy is false"),
        ({"operator": {"flavour": "upstream"}, "installMode": "direct"}, None),
        ({"installMode": "none"}, None),
    ],
    ids=str,
)
def test_namespaces_that_would_limit_nothing_are_refused(
    beside: dict[str, Any], words: str | None, environment: dict[str, str]
) -> None:
    document = {**GOOD, **beside, "scrapeNamespaces": ["monitoring"]}
    if words is None:
        assert check(engine_values(document), set(), environment)[0].scrape_namespaces == ("monitoring",)
        return
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(document), set(), environment)
    (problem,) = refused.value.problems
    assert problem.path == "scrapeNamespaces"
    assert words in problem.message


@pytest.mark.parametrize("secret", ["eyJhbGciOi.eyJz.x", "sha256~abcdef", "Bearer abcdef", "https://me:abc@prometheus"])
@pytest.mark.parametrize("key", ["schedulerName", "logLevel", "schedulerImage", "cluster", "protect"])
def test_a_value_that_looks_secret_is_never_shown(key: str, secret: str, environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(changed(key, secret)), set(), environment)
    assert secret not in str(refused.value)


def test_the_profile_is_checked_for_its_own_image_even_if_other_keys_are_wrong(environment: dict[str, str]) -> None:
    extra = [{"name": "Mine", "points": ["score"]}]
    plugins = {"score": {"enabled": [{"name": "Mine"}]}}
    document = GOOD | {"logLevel": "loud", "schedulerImage": "my/own:1", "extraPlugins": extra, "plugins": plugins}
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(document), set(), environment)
    assert [problem.path for problem in refused.value.problems] == ["logLevel"]
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(document | {"schedulerImage": ""}), set(), environment)
    assert {problem.path for problem in refused.value.problems} == {"logLevel", "schedulerImage"}


def test_the_table_has_many_refusals() -> None:
    assert len(REFUSALS) >= 80


def test_a_plugin_that_the_image_does_not_have_is_reported_with_the_release(environment: dict[str, str]) -> None:
    document = changed(f"{PLUGIN}.name", "Peaks") | {"schedulerImage": GO_IMAGE.replace("0.34.7", "0.29.8")}
    with pytest.raises(ConfigurationError, match=r'"Peaks" does not exist in scheduler-plugins@0\.29'):
        check(engine_values(document), set(), environment)


@pytest.mark.parametrize("key", ["cluster", "plugins", "profiles", "extraPlugins"])
def test_a_secret_in_a_structured_key_is_refused_for_every_key(key: str, environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=f"{key}: holds an encrypted value") as refused:
        check(engine_values(GOOD) | {key: engine_values(GOOD).get(key, "[]")}, {key}, environment)
    assert TOKEN not in str(refused.value)


def test_a_kubeconfig_in_clear_is_refused(environment: dict[str, str]) -> None:
    text = Path(environment["KUBECONFIG"]).read_text()
    with pytest.raises(ConfigurationError, match="kubeconfig: is stored in plain text; encrypt it"):
        check(engine_values(GOOD) | {"kubeconfig": text}, set(), environment)


def test_a_key_that_config_set_made_without_path_is_answered_with_the_commands_that_mend_it(
    environment: dict[str, str],
) -> None:
    stray = {
        "cluster.clusterIdentifier": "prod",
        "metricProvider.credentials.token": TOKEN,
        "plugins.score.enabled[0].weight": "3",
    }
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(GOOD) | stray, set(), environment)
    assert [problem.message.partition("run: ")[2] for problem in refused.value.problems] == [
        "pulumi config rm cluster.clusterIdentifier && pulumi config set --path cluster.clusterIdentifier prod",
        "pulumi config rm metricProvider.credentials.token"
        " && pulumi config set --path metricProvider.credentials.token VALUE",
        "pulumi config rm 'plugins.score.enabled[0].weight'"
        " && pulumi config set --path 'plugins.score.enabled[0].weight' 3",
    ]
    assert TOKEN not in str(refused.value)


def test_one_mistake_does_not_hide_another_whatever_each_of_them_is_about(environment: dict[str, str]) -> None:
    """Wrong types and ranges, unknown plugins and args, a missing token and a wrong context, in one pass."""
    document = changed(f"{PLUGIN}.weight", 500)
    document[PLUGIN.partition(".")[0]]["score"]["enabled"] += [{"name": "PodStat"}]
    document["plugins"]["score"]["enabled"][0]["args"]["targetUtilization"] = 200
    document["metricProvider"] |= {"type": "Prometeus", "credentials": {"token": {"fromFileInEnv": "NOT_SET"}}}
    document |= {"cluster": {"context": "two"}, "logLevel": "loud", "readySeconds": "1", "installMode": "helm"}
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(document), set(), environment)
    assert sorted(problem.path for problem in refused.value.problems) == [
        "cluster.context",
        "installMode",
        "logLevel",
        "metricProvider.credentials.token.fromFileInEnv",
        "metricProvider.type",
        f"{PLUGIN}.args.targetUtilization",
        f"{PLUGIN}.weight",
        "plugins.score.enabled[1].name",
        "readySeconds",
    ]


@pytest.mark.parametrize("key", sorted({path.partition(".")[0] for path, *_ in REFUSALS.values()}))
def test_what_follows_from_a_mistake_is_not_reported_as_another(key: str, environment: dict[str, str]) -> None:
    wrong = "/A B"  # neither a structure, a number, a switch, an image, a name nor a relative path
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(GOOD | {key: wrong}), set(), environment)
    assert len(refused.value.problems) == 1, [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("image", "flavour", "expected"),
    [
        (f"registry.example.com/secondary-scheduler/kube-scheduler:{__version__}", "", f"registry.example.com/secondary-scheduler/operator:{__version__}"),
        ("localhost:5000/mirror/kube-scheduler:1", "ours", "localhost:5000/mirror/operator:1"),
        ("registry.example.com/secondary-scheduler/kube-scheduler@sha256:" + "0" * 64, "", f"registry.example.com/secondary-scheduler/operator:{__version__}"),
        ("registry.example.com/secondary-scheduler/kube-scheduler", "", f"registry.example.com/secondary-scheduler/operator:{__version__}"),
        ("registry.example.com/mirror/ks:1", "ours", f"REGISTRY/secondary-scheduler/operator:{__version__}"),
        (GO_IMAGE, "", f"REGISTRY/secondary-scheduler/operator:{__version__}"),
    ],
)  # fmt: skip
def test_the_operators_image_follows_from_a_tag_of_ours_and_else_the_message_shows_what_to_set(
    image: str, flavour: str, expected: str, environment: dict[str, str]
) -> None:
    document = changed("operatorImage", ABSENT) | {"schedulerImage": image, "flavour": flavour}
    by_tag = ":" in image.rpartition("/")[2] and "@" not in image
    if by_tag and "REGISTRY" not in expected:
        settings, _, _ = check(engine_values(document), set(), environment)
        assert settings.operator_image == expected
        return
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(document), set(), environment)
    (problem,) = [each for each in refused.value.problems if each.path == "operatorImage"]
    assert problem.message.endswith(f"set it: pulumi config set operatorImage {expected}")


def test_upstreams_operator_does_not_follow_from_our_scheduler(environment: dict[str, str]) -> None:
    document = changed("operatorImage", ABSENT) | {"operator": {"flavour": "upstream"}}
    with pytest.raises(ConfigurationError, match=r"operatorImage: missing; set it: .* the upstream one"):
        check(engine_values(document), set(), environment)


ONE_SETTING = {"schedulerImage": f"registry.example.com/secondary-scheduler/kube-scheduler:{__version__}"}


def test_one_setting_is_enough_and_the_preview_says_what_is_missing_for_load(environment: dict[str, str]) -> None:
    settings, profile, _ = check(ONE_SETTING, set(), environment)
    assert settings.cluster.cluster_identifier is None
    assert not settings.retain_crds
    (warning,) = profile.warnings
    assert warning.path == "metricProvider"
    assert "not by the nodes' load" in warning.message


def test_a_metric_source_alone_enables_a_plugin_that_reads_it(environment: dict[str, str]) -> None:
    source = json.dumps({"type": "Prometheus", "address": "https://prometheus:9090"})
    for image in (ONE_SETTING["schedulerImage"], GO_IMAGE):
        values = {"schedulerImage": image, "operatorImage": "a/b:1", "metricProvider": source}
        _, profile, _ = check(values, set(), environment)
        assert profile.warnings == ()
        weights = {
            plugin.name: plugin.weight for plugin in profile.configuration.profiles[0].plugins(ExtensionPoint.SCORE)
        }
        assert weights["TargetLoadPacking"] == 10
        assert not {"NodeResourcesFit", "NodeResourcesBalancedAllocation"} & weights.keys()
    own = {"schedulerImage": "my/scheduler:1", "operatorImage": "a/b:1", "metricProvider": source}
    _, profile, _ = check(own, set(), environment)
    (warning,) = profile.warnings
    assert warning.message.startswith("is not used: no plugin that is enabled scores by load")


def go_stack(**credentials: Any) -> dict[str, Any]:
    document = changed("schedulerImage", GO_IMAGE)
    del document["metricProvider"]["credentials"]["caFile"]
    document["metricProvider"]["credentials"] |= credentials
    return document


def test_the_go_image_finds_the_token_in_its_configuration_where_the_stack_allows_that(
    environment: dict[str, str],
) -> None:
    settings, profile, credentials = check(engine_values(go_stack(allowTokenInConfigMap=True)), set(), environment)
    args = profile.configuration.profiles[0].plugin_args["TargetLoadPacking"].to_dict()
    assert args["metricProvider"]["token"] == TOKEN
    assert TOKEN in profile.content
    assert profile.holds_token
    assert credentials.token is None, "no Secret is made of it"
    for text in (repr(settings), repr(credentials), repr(profile), str(profile.outputs), str(profile.warnings)):
        assert TOKEN not in text
    (warning,) = profile.warnings
    assert warning.path == f"{CREDENTIALS}.allowTokenInConfigMap"
    assert "ConfigMaps in the namespace openshift-secondary-scheduler-operator can read it" in warning.message


def test_credentials_beside_a_misspelled_image_name_the_image(environment: dict[str, str]) -> None:
    document = changed(CREDENTIALS, {"token": {"fromFileInEnv": "TOKEN_FILE"}})
    document |= {"schedulerImage": "registry.example.com/secondary-scheduler/kube-schduler:0.2.0"}
    with pytest.raises(ConfigurationError, match=r"schedulerImage has a name that is not known \(misspelled\?"):
        check(engine_values(document), set(), environment)


def test_every_credential_that_the_go_image_cannot_read_is_refused_unless_a_load_watcher_holds_it(
    environment: dict[str, str],
) -> None:
    own = {"serviceAccount": {}}
    for credentials in ({"token": {"fromFileInEnv": "TOKEN_FILE"}}, {"existingSecret": {"name": "x"}}, own):
        document = changed(CREDENTIALS, credentials) | {"schedulerImage": GO_IMAGE}
        with pytest.raises(ConfigurationError, match="reads a token from its configuration only; choose one of two"):
            check(engine_values(document), set(), environment)
        document["plugins"]["score"]["enabled"][0]["args"]["watcherAddress"] = "http://127.0.0.1:2020"
        _, profile, _ = check(engine_values(document), set(), environment)
        assert not profile.holds_token
    document = go_stack(allowTokenInConfigMap=True, caFile={"fromFileInEnv": "CA_FILE"})
    with pytest.raises(
        ConfigurationError, match=r"credentials\.caFile: has no effect: .* trusts the authorities of its"
    ):
        check(engine_values(document), set(), environment)


def watched_stack(**source: Any) -> dict[str, Any]:
    """Of the Go image, with a load-watcher."""
    document = go_stack()
    document["metricProvider"] |= {"loadWatcher": {"image": OUR_IMAGE}, **source}
    return document


def test_a_load_watcher_holds_the_token_and_the_go_plugins_get_its_address(environment: dict[str, str]) -> None:
    document = watched_stack(window="5m", nodeLabel="node")
    _, profile, credentials = check(engine_values(document), set(), environment)
    args = profile.configuration.profiles[0].plugin_args["TargetLoadPacking"].to_dict()
    assert args["watcherAddress"] == "http://secondary-scheduler-load-watcher:2020"
    assert credentials.token == TOKEN, "for a Secret"
    assert TOKEN not in profile.content
    assert not profile.holds_token
    assert profile.warnings == ()
    watcher = profile.load_watcher
    assert watcher is not None
    assert watcher.image == OUR_IMAGE
    assert TOKEN not in watcher.content
    assert watcher.rules.address == "https://prometheus:9090"
    options = watcher.configuration.profiles[0].options.load
    assert (options.window, options.node_label) == ("5m", "node")
    assert options.token_file == "/var/run/secrets/secondary-scheduler/metrics/token"


def test_every_origin_of_a_token_suits_a_load_watcher_and_so_does_none(environment: dict[str, str]) -> None:
    own = {"serviceAccount": {}}
    for credentials in ({"existingSecret": {"name": "x", "caKey": "ca"}}, own, None):
        document = watched_stack(credentials=credentials)
        if credentials is None:
            del document["metricProvider"]["credentials"]
        _, profile, values = check(engine_values(document), set(), environment)
        assert profile.load_watcher is not None
        assert profile.load_watcher.configuration.profiles[0].options.load.token_file == values.files.token
        assert (profile.load_watcher.rules.service_account_token is not None) == (credentials == own)


def test_the_settings_of_a_load_watchers_source_are_checked(environment: dict[str, str]) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"loadWatcher": {}}, r"loadWatcher\.image: missing; .*REGISTRY/secondary-scheduler/operator:"),
        ({"loadWatcher": {"image": GO_IMAGE}}, r"loadWatcher\.image: is an image of scheduler-plugins"),
        ({"window": "soon"}, r'metricProvider\.window: "soon" is not a PromQL duration'),
        ({"address": "http://prometheus:9090"}, r"metricProvider\.address: a token is not sent over HTTP"),
        ({"type": "SignalFx"}, r"metricProvider\.loadWatcher: is for type Prometheus"),
    ]
    for source, message in wrong:
        with pytest.raises(ConfigurationError, match=message) as refusal:
            check(engine_values(watched_stack(**source)), set(), environment)
        assert len(refusal.value.problems) == 1, source


def test_a_load_watcher_and_another_way_to_the_source_exclude_each_other(environment: dict[str, str]) -> None:
    document = watched_stack()
    document["metricProvider"]["credentials"]["allowTokenInConfigMap"] = True
    with pytest.raises(
        ConfigurationError, match=r"allowTokenInConfigMap: and metricProvider\.loadWatcher are two ways"
    ):
        check(engine_values(document), set(), environment)
    document = watched_stack()
    document["plugins"]["score"]["enabled"][0]["args"]["watcherAddress"] = "http://127.0.0.1:2020"
    with pytest.raises(ConfigurationError, match=r"args\.watcherAddress: conflicts with metricProvider\.loadWatcher"):
        check(engine_values(document), set(), environment)


def test_only_profiles_of_the_stacks_own_source_ask_its_load_watcher(environment: dict[str, str]) -> None:
    document = watched_stack()
    plugins = document.pop("plugins")
    other = {**OPEN_SOURCE, "address": "https://other:1"}
    document["profiles"] = [
        {"schedulerName": "one", "plugins": plugins},
        {"schedulerName": "two", "plugins": plugins, "metricProvider": other},
    ]
    _, profile, _ = check(engine_values(document), set(), environment)
    first, second = (each.plugin_args["TargetLoadPacking"].to_dict() for each in profile.configuration.profiles)
    assert first["watcherAddress"] == "http://secondary-scheduler-load-watcher:2020"
    assert "watcherAddress" not in second or not second["watcherAddress"]
    assert second["metricProvider"]["address"] == "https://other:1"
    document["profiles"][1]["metricProvider"]["loadWatcher"] = {"image": OUR_IMAGE}
    with pytest.raises(ConfigurationError, match="a load-watcher reads a single source"):
        check(engine_values(document), set(), environment)


def test_peaks_asks_the_load_watcher_too(environment: dict[str, str]) -> None:
    document = watched_stack()
    document["plugins"]["score"]["enabled"] = [{"name": "Peaks"}]
    _, profile, _ = check(engine_values(document), set(), environment)
    args = profile.configuration.profiles[0].plugin_args["Peaks"].to_dict()
    assert args["WatcherAddress"] == "http://secondary-scheduler-load-watcher:2020"


def test_a_configuration_file_names_its_load_watcher_itself(environment: dict[str, str], tmp_path: Path) -> None:
    configuration = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (tmp_path / "kube-scheduler.yaml").write_text(configuration + "profiles: [{schedulerName: s}]\n")
    document = watched_stack() | {"configurationFile": "kube-scheduler.yaml"}
    del document["plugins"]
    with pytest.raises(ConfigurationError, match=r"loadWatcher: is for plugins of the stack file.*watcherAddress"):
        check(engine_values(document), set(), environment, tmp_path)


def test_a_configuration_file_gets_no_token_of_the_stack_and_the_refusal_says_what_does_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    configuration = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (tmp_path / "kube-scheduler.yaml").write_text(configuration + "profiles: [{schedulerName: s}]\n")
    document = go_stack(allowTokenInConfigMap=True) | {"configurationFile": "kube-scheduler.yaml"}
    del document["plugins"]
    document["metricProvider"] = {"credentials": document["metricProvider"]["credentials"]}
    with pytest.raises(ConfigurationError, match=r"allowTokenInConfigMap: is for plugins of the stack.*watcherAddress"):
        check(engine_values(document), set(), environment, tmp_path)


def test_the_token_goes_to_the_stacks_own_source_only(environment: dict[str, str]) -> None:
    document = go_stack(allowTokenInConfigMap=True)
    plugins = document.pop("plugins")
    document["profiles"] = [
        {"schedulerName": "one", "plugins": plugins},
        {"schedulerName": "two", "plugins": plugins, "metricProvider": {**OPEN_SOURCE, "address": "https://other:1"}},
    ]
    _, profile, _ = check(engine_values(document), set(), environment)
    first, second = (
        each.plugin_args["TargetLoadPacking"].to_dict()["metricProvider"] for each in profile.configuration.profiles
    )
    assert first["token"] == TOKEN
    assert not second.get("token")


def test_all_problems_are_reported_at_once(environment: dict[str, str]) -> None:
    document = changed(f"{PLUGIN}.args.targetUtilization", 200) | {"schedulerImage": "", "logLevel": "loud"}
    with pytest.raises(ConfigurationError) as refused:
        check(engine_values(document), set(), environment)
    assert {problem.path for problem in refused.value.problems} == {
        "schedulerImage", "logLevel", f"{PLUGIN}.args.targetUtilization",
    }  # fmt: skip


def test_token_in_clear_under_its_own_key_is_refused(environment: dict[str, str]) -> None:
    document = changed(f"{CREDENTIALS}.token", {"secretKey": "prometheusToken"}) | {"prometheusToken": TOKEN}
    with pytest.raises(ConfigurationError, match="prometheusToken: is stored in plain text; encrypt it") as refused:
        check(engine_values(document), set(), environment)
    assert TOKEN not in str(refused.value)


def test_encrypted_value_inside_a_structured_key_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="metricProvider: holds an encrypted value"):
        check(engine_values(GOOD), {"metricProvider"}, environment)


def test_a_token_over_plain_http_is_refused_unless_allowed_and_plain_http_without_a_token_is_not(
    environment: dict[str, str],
) -> None:
    document = changed("metricProvider.address", "http://prometheus:9090")
    with pytest.raises(ConfigurationError, match=r"metricProvider\.address: a token is not sent over HTTP"):
        check(engine_values(document), set(), environment)
    document["metricProvider"]["credentials"]["allowInsecure"] = True
    assert "metricProvider.address" in warned(document, environment)
    del document["metricProvider"]["credentials"]
    assert "metricProvider.address" not in warned(document, environment)


def test_credentials_that_upstreams_operator_does_not_pass_on_are_warned_of(environment: dict[str, str]) -> None:
    document = changed("installMode", "olm")
    del document["operatorImage"]
    assert "metricProvider.credentials" in warned(document, environment)
    assert "metricProvider.credentials" not in warned(GOOD, environment)


def warned(document: Mapping[str, Any], environment: dict[str, str]) -> set[str]:
    _, profile, _ = check(engine_values(document), set(), environment)
    return {warning.path for warning in profile.warnings}


def test_the_metrics_server_is_a_source_without_an_address(environment: dict[str, str]) -> None:
    document = changed("metricProvider", {"type": "KubernetesMetricsServer"})
    _, profile, _ = check(engine_values(document), set(), environment)
    args = profile.configuration.profiles[0].plugin_args["TargetLoadPacking"].to_dict()
    assert args["metricProvider"]["type"] == "KubernetesMetricsServer"


def test_a_plugin_of_multi_point_runs_wherever_it_extends(environment: dict[str, str]) -> None:
    selection = {"enabled": [{"name": "QOSSort"}], "disabled": ["PrioritySort"]}
    document = changed("plugins.multiPoint", selection) | {"schedulerImage": GO_IMAGE, "metricProvider": OPEN_SOURCE}
    _, profile, _ = check(engine_values(document), set(), environment)
    (sorter,) = profile.configuration.profiles[0].plugins(ExtensionPoint.QUEUE_SORT)
    assert sorter.name == "QOSSort"
    assert profile.summaries[0]["plugins"] == ["QOSSort"]
    assert set(profile.summaries[0]["scorePlugins"]) == {"TargetLoadPacking"}


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_compatibility_reaches_only_our_scheduler(compatibility: str, environment: dict[str, str]) -> None:
    document = changed("compatibility", compatibility)
    _, profile, _ = check(engine_values(document), set(), environment)
    assert profile.configuration.profiles[0].options.compatibility == compatibility
    document |= {"schedulerImage": GO_IMAGE, "metricProvider": OPEN_SOURCE}
    _, profile, _ = check(engine_values(document), set(), environment)
    assert "compatibility" not in profile.content


def test_the_unchanged_settings_are_accepted_and_keep_the_token_out_of_every_text(environment: dict[str, str]) -> None:
    settings, profile, credentials = check(engine_values(GOOD), set(), environment)
    assert credentials.token == TOKEN
    assert credentials.certificate_authority == environment_text(environment, "CA_FILE")
    assert not profile.holds_token
    for text in (repr(settings), repr(credentials), profile.content, repr(profile)):
        assert TOKEN not in text


def environment_text(environment: Mapping[str, str], variable: str) -> str:
    return Path(environment[variable]).read_text().strip()


def changed(path: str, value: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    *parents, last = [int(p) if p.isdigit() else p for p in path.replace("[", ".").replace("]", "").split(".")]
    node: Any = document
    for part in parents:
        node = node[part]
    if value is ABSENT:
        del node[last]
    else:
        node[last] = value
    return document


def engine_values(document: Mapping[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in document.items()}


@pytest.mark.parametrize(
    ("settings", "crds", "kept"),
    [
        ({}, [], []),
        ({}, ["podgroups.scheduling.x-k8s.io", "appgroups.appgroup.diktyo.x-k8s.io"], ["podgroups"]),
        ({"instances": [{"namespace": "team-a"}]}, [], ["podgroups", "elasticquotas"]),
        ({"statusOf": []}, ["podgroups.scheduling.x-k8s.io"], []),
        ({"statusOf": ["elasticquotas"]}, [], ["elasticquotas"]),
    ],
)
def test_the_operator_maintains_the_requested_status_or_that_of_kinds_which_plugins_read(settings, crds, kept) -> None:
    assert OperatorSettings.model_validate_json(json.dumps(settings)).keeps_status_of(crds) == kept
