"""`secondary-scheduler render`: what it writes, in which order, and what it never writes."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from secondary_scheduler.cli.errors import ExitCode
from tests.support.rendering import PLAIN, Project

CANARY = "canary-token-31415926"
LOAD = {
    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 10}]}},
    "metricProvider": {
        "type": "Prometheus",
        "address": "https://prometheus.example.com",
        "credentials": {"token": {"fromFileInEnv": "RENDER_TOKEN"}, "caFile": {"fromFileInEnv": "RENDER_CA"}},
    },
}
ENCRYPTED = {**LOAD["metricProvider"], "credentials": {"token": {"secretKey": "prometheusToken"}}}


# A program takes a second to run, so that the tests share what they do not change.
@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("render"))
    project.stack("plain")
    project.stack("load", **LOAD)
    project.stack("sealed", {**PLAIN, **LOAD}, metricProvider=ENCRYPTED, prometheusToken={"secure": "v1:abc:def"})
    return project


@pytest.fixture(scope="module")
def plain(project: Project) -> CompletedProcess[str]:
    """The stack without a metric source, on stdout."""
    done = project.render("--stack", "plain")
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def manifests(plain: CompletedProcess[str]) -> list[dict[str, Any]]:
    return [manifest for manifest in yaml.safe_load_all(plain.stdout) if manifest]


@pytest.fixture(scope="module")
def credentials(project: Project) -> dict[str, str]:
    """Environment variables that name the files with the stack's token and certificate authority."""
    files = {"RENDER_TOKEN": CANARY, "RENDER_CA": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"}
    for name, content in files.items():
        (project.root.parent / name).write_text(content)
    return {name: str(project.root.parent / name) for name in files}


def names(manifests: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]


def test_everything_comes_in_an_order_in_which_it_can_be_applied(manifests: list[dict[str, Any]]) -> None:
    kinds = [manifest["kind"] for manifest in manifests]
    assert kinds[:2] == ["CustomResourceDefinition", "Namespace"]
    assert kinds[-2:] == ["Deployment", "SecondaryScheduler"]
    earlier = set()
    for manifest in manifests:
        namespace = manifest["metadata"].get("namespace")
        assert namespace is None or ("Namespace", namespace) in earlier, manifest["metadata"]
        if "roleRef" in manifest:
            assert (manifest["roleRef"]["kind"], manifest["roleRef"]["name"]) in earlier
        earlier.add((manifest["kind"], manifest["metadata"]["name"]))
    assert ("ConfigMap", manifests[-1]["spec"]["schedulerConfig"]) in earlier


def test_nothing_is_left_that_only_pulumi_understands(manifests: list[dict[str, Any]]) -> None:
    for manifest in manifests:
        metadata = manifest["metadata"]
        assert not [key for key in metadata.get("annotations", {}) if key.startswith("pulumi.com/")]
        assert "app.kubernetes.io/managed-by" not in metadata["labels"]
        assert metadata["labels"]["app.kubernetes.io/instance"] == "plain"
        assert "status" not in manifest


def test_the_same_settings_give_the_same_bytes(project: Project, plain: CompletedProcess[str]) -> None:
    assert project.render("--stack", "plain").stdout == plain.stdout


@pytest.mark.parametrize(
    ("mode", "last"),
    [
        pytest.param("olm", "SecondaryScheduler", marks=pytest.mark.slow),
        ("direct", "Deployment"),
        pytest.param("none", "SecondaryScheduler", marks=pytest.mark.slow),
    ],
)
def test_every_way_to_install_has_its_manifests(project: Project, mode: str, last: str) -> None:
    project.stack(mode, installMode=mode)
    kinds = [manifest["kind"] for manifest in project.manifests(mode)]
    assert kinds[-1] == last
    assert ("Subscription" in kinds) is (mode == "olm")
    assert not {"InstallPlan", "ClusterServiceVersion"} & set(kinds), "OLM makes them"


def test_a_secret_is_rendered_as_a_comment_without_its_values(project: Project, credentials: dict[str, str]) -> None:
    done = project.render("--stack", "load", **credentials)
    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stdout + done.stderr
    manifests = [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]
    assert "Secret" not in {manifest["kind"] for manifest in manifests}
    reference = manifests[-1]["spec"]["metricCredentials"]
    command = (
        f"create secret generic {reference['secretName']} --from-file=ca.crt=FILE --from-file={reference['key']}=FILE"
    )
    assert command in done.stdout
    assert command in done.stderr


def test_show_secrets_writes_it_in_clear_into_a_file_for_its_owner_only(
    project: Project, tmp_path: Path, credentials: dict[str, str]
) -> None:
    done = project.render("--stack", "load", "--output-dir", str(tmp_path), "--show-secrets", **credentials)
    assert done.returncode == 0
    (file,) = tmp_path.glob("*-secret-*.yaml")
    assert file.stat().st_mode & 0o077 == 0
    assert yaml.safe_load(file.read_text())["stringData"]["token"] == CANARY
    (scheduler,) = tmp_path.glob("*-secondaryscheduler-*.yaml")
    assert file.name < scheduler.name


def test_what_only_the_engine_can_decrypt_is_left_out_without_asking_it(project: Project) -> None:
    done = project.render("--stack", "sealed")
    assert done.returncode == 0, done.stderr
    assert "is left out" in done.stderr
    assert "v1:abc:def" not in done.stdout


def test_decrypting_needs_the_pulumi_cli_and_says_so(project: Project) -> None:
    done = project.render("--stack", "sealed", "--show-secrets")
    assert done.returncode == ExitCode.ERROR
    assert "prometheusToken" in done.stderr
    assert "Pulumi CLI" in done.stderr


@pytest.mark.slow
def test_a_directory_has_one_file_per_object_in_order_and_no_stale_one(
    project: Project, tmp_path: Path, manifests: list[dict[str, Any]]
) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    assert project.render("--stack", "plain", "--output-dir", str(tmp_path)).returncode == 0
    before = {file.name for file in tmp_path.glob("*.yaml")}
    in_order = [yaml.safe_load(file.read_text()) for file in sorted(tmp_path.glob("[0-9]*.yaml"))]
    assert in_order == manifests

    project.stack("changed", compatibility="upstream")
    assert project.render("--stack", "changed", "--output-dir", str(tmp_path)).returncode == 0
    after = {file.name for file in tmp_path.glob("*.yaml")}
    assert "kustomization.yaml" in after
    assert len(after) == len(before)
    assert len([name for name in before - after if "configmap" in name]) == 1

    (file,) = tmp_path.glob("01-*.yaml")
    file.write_text("mine: true\n")
    done = project.render("--stack", "changed", "--output-dir", str(tmp_path))
    assert done.returncode == ExitCode.ERROR
    assert str(file) in done.stderr
    assert file.read_text() == "mine: true\n", "somebody else's file is not written over"


def test_wrong_settings_are_reported_as_in_a_preview_and_nothing_is_written(project: Project, tmp_path: Path) -> None:
    project.stack("bad", logLevel="Loud")
    done = project.render("--stack", "bad", "--output-dir", str(tmp_path / "deploy"))
    assert done.returncode == ExitCode.INVALID_INPUT
    assert "logLevel" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "deploy").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--stack", "nowhere"), "stacks there: "),
        (("--stack", "plain", "--project", "/"), "no Pulumi.yaml"),
    ],
)
def test_what_is_not_there_is_a_mistake_in_the_call(project: Project, arguments: tuple[str, ...], message: str) -> None:
    done = project.render(*arguments)
    assert done.returncode == ExitCode.USAGE
    assert message in done.stderr


def test_a_program_that_fails_is_reported_with_its_interpreter(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.stack("plain")
    (project.root / "__main__.py").unlink()
    (project.root / "__main__.py").write_text("raise ZeroDivisionError('broken')\n")
    done = project.render("--stack", "plain")
    assert done.returncode == ExitCode.ERROR
    assert "ZeroDivisionError" in done.stderr
    assert "failed; see above" in done.stderr.splitlines()[-1]
    assert done.stdout == ""
