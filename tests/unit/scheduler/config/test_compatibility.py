# ruff: noqa: E501 -- a case per line
"""Versions of operator, scheduler image and cluster that do not go together are found by the table."""

import pytest

from scheduler.config import ClusterVersions, flavour_names, flavour_of, incompatibilities, operator_of, operator_of_csv
from scheduler.config.compatibility import _table, lease_timings, parse_version

OUR_OPERATOR = "localhost/secondary-scheduler/operator:0.1.0"
OURS = "localhost/secondary-scheduler/kube-scheduler:0.1.0"
UPSTREAM = "registry.redhat.io/openshift-secondary-scheduler-operator/secondary-scheduler-rhel9-operator:v{}"
GO = "registry.k8s.io/scheduler-plugins/kube-scheduler:v{}"


def reported(kubernetes: str | None, openshift: str | None, operator: str, image: str) -> list[tuple[str, str]]:
    cluster = ClusterVersions(kubernetes, openshift)
    return [
        (problem.subject, problem.message)
        for problem in incompatibilities(cluster, operator_of(operator), image, flavour_of(image))
    ]


@pytest.mark.parametrize(
    ("kubernetes", "openshift", "operator", "image"),
    [
        (None, None, OUR_OPERATOR, OURS),
        ("1.34", None, OUR_OPERATOR, OURS),
        ("v1.34.7", None, OUR_OPERATOR, GO.format("0.34.7")),
        (None, "4.21", UPSTREAM.format("1.5.1"), GO.format("0.33.5")),
        (None, "4.12", UPSTREAM.format("1.1.0"), GO.format("0.25.12")),
        ("1.30.4", "4.17", UPSTREAM.format("1.3.1"), GO.format("0.29.8")),
        (None, "4.23", UPSTREAM.format("1.6.1"), GO.format("0.35.7")),
        ("1.33", "4.20", "example.com/other/operator:7", "example.com/my/scheduler:1"),
        ("1.31", None, UPSTREAM.format("1.4.0"), GO.format("0.31.8")),
        (None, "5.0", OUR_OPERATOR, GO.format("0.35.7")),
        ("1.36", "5.0", OUR_OPERATOR, "example.com/my/scheduler:1"),
        ("1.37", "5.1", OUR_OPERATOR, "example.com/my/scheduler:1"),
    ],
)  # fmt: skip
def test_combinations_in_the_table_are_accepted(
    kubernetes: str | None, openshift: str | None, operator: str, image: str
) -> None:
    assert reported(kubernetes, openshift, operator, image) == []


@pytest.mark.parametrize(
    ("kubernetes", "openshift", "operator", "image", "subject", "words"),
    [
        ("1.29", "4.17", OUR_OPERATOR, "my/own:1", "cluster", ["OpenShift 4.17 is Kubernetes 1.30, not 1.29"]),
        (None, "4.17", UPSTREAM.format("1.6.0"), "my/own:1", "operator", ["OpenShift 4.22, 4.23, not 4.17", "operator 1.3 supports it"]),
        ("1.36", "4.30", UPSTREAM.format("1.6.0"), "my/own:1", "operator", ["no known operator supports it"]),
        (None, "4.11", UPSTREAM.format("1.1.2"), "my/own:1", "operator", ["supports OpenShift 4.12, 4.13, not 4.11", "operator 1.1 supports"]),
        ("1.28.3", None, UPSTREAM.format("1.3.0"), "my/own:1", "operator", ["needs Kubernetes 1.29.0 or later, not 1.28"]),
        ("1.35.2", None, UPSTREAM.format("1.6.1"), "my/own:1", "operator", ["OpenShift's own APIs", "this project's operator"]),
        (None, None, UPSTREAM.format("2.0.0"), "my/own:1", "operator", ["operator 2.0.0 is not in the table", "1.0 to 1.6"]),
        ("1.28", None, OUR_OPERATOR, "my/own:1", "operator", ["needs Kubernetes 1.29 or later"]),
        (None, None, OUR_OPERATOR, GO.format("0.29.7"), "scheduler", ["0.29.7 is broken", "use 0.29.8"]),
        (None, None, OUR_OPERATOR, "k8s.gcr.io/scheduler-plugins/kube-scheduler:v0.28.9", "scheduler", ["k8s.gcr.io is frozen", "registry.k8s.io"]),
        ("1.31", None, OUR_OPERATOR, GO.format("0.33.5"), "scheduler", ["from Kubernetes 1.33, newer than the cluster's 1.31", "use 0.31.8"]),
        (None, "4.19", OUR_OPERATOR, GO.format("0.29.8"), "scheduler", ["more than one release older than the cluster's 1.32", "use 0.32.7"]),
        (None, "5.1", OUR_OPERATOR, "my/own:1", "cluster", ["OpenShift 5.1 is not in the table", "4.6 to 5.0", "set kubernetesVersion"]),
        ("1.13", "5.0", "my/operator:1", "my/own:1", "cluster", ["OpenShift 5.0 is Kubernetes 1.36, not 1.13"]),
    ],
)  # fmt: skip
def test_incompatible_versions_are_reported_with_a_remedy(
    kubernetes: str | None, openshift: str | None, operator: str, image: str, subject: str, words: list[str]
) -> None:
    ((reported_subject, message),) = reported(kubernetes, openshift, operator, image)
    assert reported_subject == subject
    for word in words:
        assert word in message
    assert "; " in message


def test_an_operator_is_known_by_image_or_csv() -> None:
    ours, mirrored = operator_of(OUR_OPERATOR), operator_of("quay.io/me/secondary-scheduler-operator:1.2.1-rc1")
    assert ours is not None
    assert (ours.is_ours, ours.version) == (True, (0, 1, 0))
    assert mirrored is not None
    assert (mirrored.is_ours, mirrored.version) == (False, (1, 2, 1))
    assert operator_of("quay.io/me/operator:1") is None
    from_csv = operator_of_csv("secondaryscheduleroperator.v1.5.0")
    assert from_csv is not None
    assert from_csv.version == (1, 5, 0)
    assert operator_of_csv("other.v1.5.0") is None


def test_the_timings_that_an_operator_gives_the_lease_are_known() -> None:
    assert lease_timings(operator_of(OUR_OPERATOR)) == {}
    assert lease_timings(operator_of(UPSTREAM.format("1.5.1"))) is None
    timings = lease_timings(operator_of(UPSTREAM.format("1.6.0")))
    assert timings == {"leaseDuration": "137s", "renewDeadline": "107s", "retryPeriod": "26s"}


def test_every_version_of_the_table_can_be_read_and_every_release_has_a_flavour() -> None:
    table = _table()
    for row in table["operators"]:
        assert all(parse_version(text) for text in (*row["versions"], *row["openshift"], row["minimum"]))
    assert all(
        f"scheduler-plugins@0.{parse_version(version)[1]}" in flavour_names()
        for version in table["schedulerPlugins"]["newest"]
    )  # type: ignore[index]
    assert all(parse_version(version) for version in table["schedulerPlugins"]["broken"])


@pytest.mark.parametrize("text", ["", "1", "one.two", "1.x", "latest", "1.2.3.4"])
def test_an_invalid_version_is_none(text: str) -> None:
    assert parse_version(text) is None


OPENSHIFT = {
    "4.16": "1.29",
    "4.17": "1.30",
    "4.18": "1.31",
    "4.19": "1.32",
    "4.20": "1.33",
    "4.21": "1.34",
    "4.22": "1.35",
    "4.23": "1.36",
    "5.0": "1.36",
}


@pytest.mark.parametrize(("openshift", "kubernetes"), OPENSHIFT.items())
def test_every_openshift_is_the_kubernetes_that_its_release_branch_has(openshift: str, kubernetes: str) -> None:
    assert reported(kubernetes, openshift, "my/operator:1", "my/own:1") == []
    ((subject, message),) = reported("1.28", openshift, "my/operator:1", "my/own:1")
    assert subject == "cluster"
    assert f"OpenShift {openshift} is Kubernetes {kubernetes}, not 1.28" in message


TESTED = "tested with Kubernetes 1.34 (upstream's support ended on 2026-10-27), not"


@pytest.mark.parametrize("openshift", [True, False])
@pytest.mark.parametrize(
    ("kubernetes", "words"),
    [
        ("1.29", f"{TESTED} 1.29; try it"),
        ("1.30", f"{TESTED} 1.30, where only installing it and placing pods are tested; try it"),
        ("1.31", f"{TESTED} 1.31; try it"),
        ("1.32", f"{TESTED} 1.32, where only installing it and placing pods are tested; try it"),
        ("1.33", f"{TESTED} 1.33, where only installing it and placing pods are tested; try it"),
        ("1.34", ""),
        ("1.35", f"{TESTED} 1.35, where only installing it, placing pods and random decisions are tested; try it"),
        ("1.36", f"{TESTED} 1.36, where only installing it, placing pods and random decisions are tested; try it"),
        ("1.37", f"{TESTED} 1.37, where only installing it, placing pods and random decisions are tested; try it"),
        (
            "1.38",
            f"{TESTED} 1.38, where only random decisions, beside 1.38.0-beta.0's kube-scheduler on 1.37's API server, are "
            "tested; try it",
        ),
        ("1.39", f"{TESTED} 1.39; try it"),
    ],
)
def test_our_scheduler_says_on_which_cluster_how_much_of_it_is_tested(
    kubernetes: str, words: str, openshift: bool
) -> None:
    """Each row of the table, by the cluster's Kubernetes and by its OpenShift."""
    names = [name for name, minor in OPENSHIFT.items() if minor == kubernetes] if openshift else [None]
    for name in names:
        problems = reported(None if name else kubernetes, name, OUR_OPERATOR, OURS)
        assert [(subject, words in message) for subject, message in problems] == (
            [("scheduler", True)] if words else []
        )
