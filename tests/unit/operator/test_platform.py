"""OpenShift: its TLS profile becomes flags, never part of the spec; its certificates are trusted by Go images."""

import pytest

from secondary_scheduler.operator.reconcile import ApiFailure
from tests.unit.operator.builders import FOREIGN_IMAGE, IMAGE, World, config_map, scheduler

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
    found = World(scheduler(rollout={"canary": False}, **spec), config_map(), unserved=frozenset({"ServiceMonitor"}))
    found.put(api_server(profile))
    found.settle()
    return found


def flags(found):
    container = found.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["containers"][0]
    pairs = (arg.split("=", 1) for arg in container["args"] if arg.startswith("--tls-"))
    return dict(pairs)


@pytest.mark.parametrize(
    ("profile", "version", "has", "has_not"),
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
def test_the_profile_becomes_flags_with_iana_names(profile, version, has, has_not):
    found = flags(world(profile))
    assert found["--tls-min-version"] == version
    assert has in found["--tls-cipher-suites"]
    assert has_not not in found["--tls-cipher-suites"]


def test_a_custom_profile_without_a_known_suite_leaves_the_choice_to_the_scheduler():
    found = flags(world({"type": "Custom", "custom": {"ciphers": ["nonsense"], "minTLSVersion": "VersionTLS13"}}))
    assert found == {"--tls-min-version": "VersionTLS13"}


def test_elsewhere_there_are_no_such_flags():
    found = World(scheduler(), config_map())
    found.settle()
    assert flags(found) == {}


def test_what_the_spec_says_comes_last_and_wins():
    found = world(None, extraArgs=["--tls-min-version=VersionTLS13"])
    assert flags(found)["--tls-min-version"] == "VersionTLS13"


def test_a_change_of_the_profile_is_followed_and_the_spec_left_alone():
    found = world(None)
    found.roll_out()
    found.settle()
    before = found.resource["spec"]
    found.put(api_server({"type": "Modern"}))
    found.settle()
    assert flags(found)["--tls-min-version"] == "VersionTLS13"
    assert found.resource["spec"] == before


def test_flags_stay_while_the_profile_cannot_be_read():
    found = world({"type": "Modern"}, extraArgs=["--tls-min-version=VersionTLS13"])
    found.roll_out()
    found.settle()
    found.writes.clear()
    found.drop("APIServer", "cluster")
    found.observed_fields["unreadable"] = {"APIServer": ApiFailure(403, "apiservers is forbidden")}
    found.settle()
    assert flags(found)["--tls-cipher-suites"] == ONLY_13
    assert found.writes == []
    status, _, message = found.condition("Degraded")
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
    world = World(scheduler(schedulerImage=image, env=env), config_map(), openshift=openshift)
    world.settle()
    (container,) = world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container.get("env", [])}
    assert given.get("ENABLE_OPENSHIFT_AUTH") == expected
    assert len(container.get("env", [])) == len(given)
