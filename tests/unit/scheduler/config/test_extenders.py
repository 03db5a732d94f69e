"""Extenders in a configuration for our image: what is refused, what is warned of, and what ignoredByScheduler does."""

from pathlib import Path

import pytest
import yaml

from scheduler.catalog import NodeResourcesFitArgs
from scheduler.config import ConfigurationError, differences, load_configuration

HEAD = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: a
"""
SHAPES = Path(__file__).parents[3] / "data" / "extenders"
SECRET = "c2VjcmV0IGtleQ=="


def refused(extender: str, profile: str = "") -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(f"{HEAD}{profile}extenders: [{extender}]\n", source="f")
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems if problem.severity == "error"]


def warned(extender: str) -> list[str]:
    return [
        f"{problem.path}: {problem.message}"
        for problem in load_configuration(f"{HEAD}extenders: [{extender}]\n", source="f").warnings
        if problem.path.startswith("extenders")
    ]


@pytest.mark.parametrize("file", sorted(SHAPES.glob("*.yaml")), ids=lambda file: file.stem)
def test_configurations_in_the_shape_of_known_extenders_are_valid_for_our_image_and_for_upstreams(file: Path) -> None:
    """What the tests with the real kube-scheduler use; it accepts them, too."""
    extenders = yaml.safe_load(file.read_text().replace("URL", "https://extender.example"))
    content = {**yaml.safe_load(HEAD), "extenders": extenders}
    for flavour in ("ours", "scheduler-plugins@0.34"):
        loaded = load_configuration(content, source="f", flavour=flavour)
        assert [extender.url_prefix for extender in loaded.model.extenders] == ["https://extender.example"]


@pytest.mark.parametrize(
    ("extender", "expected"),
    [
        (
            "{urlPrefix: 'ftp://x', filterVerb: f}",
            'urlPrefix: Invalid value: "ftp://x": is not a URL of the form http://host:port/path',
        ),
        (
            "{urlPrefix: 'http://u:hidden@x', filterVerb: f}",
            "urlPrefix: a user name or password in the URL is not supported: it would be shown in events and logs",
        ),
        (
            "{urlPrefix: 'https://x', tlsConfig: {insecure: true, caFile: /ca}}",
            "tlsConfig: specifying a root certificates file with the insecure flag is not allowed",
        ),
        ("{urlPrefix: 'https://x', tlsConfig: {keyData: 'hidden!'}}", "tlsConfig.keyData: is not valid base64"),
        ("{urlPrefix: 'http://x', httpTimeout: '-1s'}", "httpTimeout: Invalid value: must not be negative"),
    ],
    ids=["scheme", "password", "insecure-with-ca", "base64", "timeout"],
)
def test_what_cannot_be_asked_is_refused_without_showing_a_secret(extender: str, expected: str) -> None:
    problems = refused(extender)
    assert problems == [f"extenders[0].{expected}"]
    assert "hidden" not in str(problems)


def test_a_key_in_the_configuration_and_unverified_tls_are_warned_of() -> None:
    assert warned(f"{{urlPrefix: 'https://x', enableHTTPS: true, tlsConfig: {{keyData: {SECRET}}}}}") == [
        "extenders[0].enableHTTPS: without caFile or caData, enableHTTPS switches verification off: the extender may "
        "be anybody",
        "extenders[0].tlsConfig.keyData: a private key in a ConfigMap can be read by everyone who can read ConfigMaps",
    ]


def test_resources_that_the_scheduler_is_to_ignore_replace_those_of_every_profile() -> None:
    profile = """    pluginConfig:
      - {name: NodeResourcesFit, args: {ignoredResources: [own.example/thing]}}
  - schedulerName: b
"""
    managed = "[{name: a.example/gpu, ignoredByScheduler: true}, {name: a.example/shown}]"
    text = f"{HEAD}{profile}extenders: [{{urlPrefix: 'http://x', managedResources: {managed}}}]\n"
    configuration = load_configuration(text, source="f")
    for each in configuration.profiles:
        fit = each.args("NodeResourcesFit")
        assert isinstance(fit, NodeResourcesFitArgs)
        assert fit.ignored_resources == ["a.example/gpu"]


def test_a_profile_without_the_plugin_that_ignores_them_is_refused() -> None:
    profile = "    plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}\n"
    managed = "[{name: a.example/gpu, ignoredByScheduler: true}]"
    assert refused(f"{{urlPrefix: 'http://x', managedResources: {managed}}}", profile) == [
        "profiles[0]: can't find NodeResourcesFitArgs in plugin config"
    ]


def test_a_private_key_is_shown_in_no_difference_between_configurations() -> None:
    before, after, other = (
        load_configuration(f"{HEAD}{extenders}", source="f")
        for extenders in (
            "",
            f"extenders: [{{urlPrefix: 'https://x', tlsConfig: {{keyData: {SECRET}}}}}]\n",
            "extenders: [{urlPrefix: 'https://x', tlsConfig: {keyData: b3RoZXI=}}]\n",
        )
    )
    text = str([*map(str, differences(before, after)), *map(str, differences(after, other))])
    assert SECRET not in text
    assert "b3RoZXI=" not in text
    assert text.count("extenders") == 2
