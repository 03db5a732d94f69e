"""OpenShift: its TLS profile becomes flags, never part of the spec; its certificates are trusted by Go images."""

import pytest

from secondary_scheduler.operator.reconcile import ApiFailure
from tests.unit.operator.builders import FOREIGN_IMAGE, IMAGE, Instance, config_map, scheduler

GCM = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
CBC = "TLS_RSA_WITH_AES_128_CBC_SHA"
ONLY_13 = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"


def api_server(profile):
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "APIServer",
        "metadata": {"name": "cluster", "uid": "api-server"},
        "spec": {"tlsSecurityProfile": profile} if profile is not None else {},
    }


def world(profile, **spec):
    installed = Instance(
        scheduler(rollout={"canary": False}, **spec), config_map(), unserved=frozenset({"ServiceMonitor"})
    )
    installed.put(api_server(profile))
    installed.settle()
    return installed


def flags(installed):
    container = installed.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["containers"][0]
    pairs = (arg.split("=", 1) for arg in container["args"] if arg.startswith("--tls-"))
    return dict(pairs)


@pytest.mark.parametrize(
    ("profile", "version", "present", "absent"),
    [
        (None, "VersionTLS12", GCM, CBC),
        ({}, "VersionTLS12", GCM, CBC),
        ({"type": "Intermediate", "intermediate": {}}, "VersionTLS12", GCM, CBC),
        ({"type": "Old", "old": {}}, "VersionTLS10", CBC, "DHE-RSA"),
        ({"type": "Modern", "modern": {}}, "VersionTLS13", ONLY_13, GCM),
        (
            {"type": "Custom", "custom": {"ciphers": ["AES128-SHA", "nonsense"], "minTLSVersion": "VersionTLS11"}},
            "VersionTLS11",
            CBC,
            "nonsense",
        ),
        ({"type": "Custom", "custom": {"ciphers": ["AES128-SHA"], "minTLSVersion": "9"}}, "VersionTLS12", CBC, GCM),
    ],
)
def test_the_profile_becomes_flags_with_iana_names(profile, version, present, absent):
    arguments = flags(world(profile))
    assert arguments["--tls-min-version"] == version
    assert present in arguments["--tls-cipher-suites"]
    assert absent not in arguments["--tls-cipher-suites"]


def test_a_custom_profile_without_a_known_suite_leaves_the_choice_to_the_scheduler():
    arguments = flags(world({"type": "Custom", "custom": {"ciphers": ["nonsense"], "minTLSVersion": "VersionTLS13"}}))
    assert arguments == {"--tls-min-version": "VersionTLS13"}


def test_elsewhere_there_are_no_such_flags():
    installed = Instance(scheduler(), config_map())
    installed.settle()
    assert flags(installed) == {}


def test_what_the_spec_says_comes_last_and_wins():
    installed = world(None, extraArgs=["--tls-min-version=VersionTLS13"])
    assert flags(installed)["--tls-min-version"] == "VersionTLS13"


def test_a_change_of_the_profile_is_followed_and_the_spec_left_alone():
    installed = world(None)
    installed.roll_out()
    installed.settle()
    before = installed.resource["spec"]
    installed.put(api_server({"type": "Modern"}))
    installed.settle()
    assert flags(installed)["--tls-min-version"] == "VersionTLS13"
    assert installed.resource["spec"] == before


def test_flags_stay_while_the_profile_cannot_be_read():
    installed = world({"type": "Modern"}, extraArgs=["--tls-min-version=VersionTLS13"])
    installed.roll_out()
    installed.settle()
    installed.writes.clear()
    installed.drop("APIServer", "cluster")
    installed.observed_fields["unreadable"] = {"APIServer": ApiFailure(403, "apiservers is forbidden")}
    installed.settle()
    assert flags(installed)["--tls-cipher-suites"] == ONLY_13
    assert installed.writes == []
    status, _, message = installed.condition("Degraded")
    assert status == "False"
    assert "apiservers is forbidden" in message


@pytest.mark.parametrize(
    ("openshift", "image", "env", "expected"),
    [
        (True, FOREIGN_IMAGE, [], "true"),
        (True, FOREIGN_IMAGE, [{"name": "ENABLE_OPENSHIFT_AUTH", "value": ""}], ""),
        (True, IMAGE, [], None),
        (False, FOREIGN_IMAGE, [], None),
    ],
)
def test_the_load_watcher_of_go_images_trusts_openshifts_certificates_there_and_only_there(
    openshift, image, env, expected
):
    world = Instance(scheduler(schedulerImage=image, env=env), config_map(), openshift=openshift)
    world.settle()
    (container,) = world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in container.get("env", [])}
    assert environment.get("ENABLE_OPENSHIFT_AUTH") == expected
    assert len(container.get("env", [])) == len(environment)
