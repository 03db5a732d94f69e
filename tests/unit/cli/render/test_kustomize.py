"""`render --format kustomize`: the same objects as plain manifests, with images to override and Argo CD's waves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from secondary_scheduler.cli.errors import ExitCode
from secondary_scheduler.cli.render.manifests import SYNC_WAVE, RenderedObject, build, kustomization
from tests.support import kustomizing
from tests.support.rendering import Project
from tests.unit.cli.render.test_manifests import SECRET_MARK, registered

SCHEDULER = "localhost/secondary-scheduler/kube-scheduler"
DIGEST = f"sha256:{'a' * 64}"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("render"))
    project.stack("plain")
    return project


@pytest.fixture(scope="module")
def manifests(project: Project) -> list[dict[str, Any]]:
    return project.manifests("plain")


@pytest.fixture(scope="module")
def directory(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kustomization of the stack."""
    target = tmp_path_factory.mktemp("kustomization")
    done = project.render("--stack", "plain", "--format", "kustomize", "--output-dir", str(target))
    assert done.returncode == 0, done.stderr
    return target


def kubectl_kustomize(directory: Path) -> list[dict[str, Any]]:
    done = subprocess.run(["kubectl", "kustomize", str(directory)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def without_wave(manifest: dict[str, Any]) -> dict[str, Any]:
    annotations = {key: value for key, value in manifest["metadata"]["annotations"].items() if key != SYNC_WAVE}
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "annotations"}
    return {**manifest, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def waves(objects: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    return {
        (manifest["kind"], manifest["metadata"]["name"]): int(manifest["metadata"]["annotations"][SYNC_WAVE])
        for manifest in objects
    }


def test_it_builds_the_objects_of_the_plain_rendering_in_their_order(
    directory: Path, manifests: list[dict[str, Any]]
) -> None:
    assert [without_wave(manifest) for manifest in kustomizing.build(directory)] == manifests


@needs_kubectl
def test_kubectl_builds_the_same_as_the_reader_of_these_tests(directory: Path) -> None:
    assert kubectl_kustomize(directory) == kustomizing.build(directory)


def test_an_object_is_in_a_later_wave_than_what_it_needs(directory: Path) -> None:
    objects = kustomizing.build(directory)
    wave = waves(objects)
    of_kind = {kind: [value for (other, _), value in wave.items() if other == kind] for kind, _ in wave}
    assert max(of_kind["CustomResourceDefinition"]) == 0
    rights = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount")
    (operator,), (scheduler,) = of_kind["Deployment"], of_kind["SecondaryScheduler"]
    assert max(value for kind in rights for value in of_kind[kind]) < operator < scheduler
    assert max(of_kind["ConfigMap"]) < scheduler
    for manifest in objects:
        key = manifest["kind"], manifest["metadata"]["name"]
        if "namespace" in manifest["metadata"]:
            assert wave["Namespace", manifest["metadata"]["namespace"]] < wave[key]
        if "roleRef" in manifest:
            assert wave[manifest["roleRef"]["kind"], manifest["roleRef"]["name"]] < wave[key]


@needs_kubectl
def test_an_overlay_names_another_image_and_its_digest(directory: Path, tmp_path: Path) -> None:
    overlay = {
        "resources": ["../base"],
        "images": [{"name": SCHEDULER, "newName": "mirror.example.com/kube-scheduler", "digest": DIGEST}],
        "configurations": ["image-fields.yaml"],
    }
    shutil.copytree(directory, tmp_path / "base")
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay/kustomization.yaml").write_text(yaml.safe_dump(overlay))
    shutil.copy(directory / "image-fields.yaml", tmp_path / "overlay")
    (scheduler,) = (
        manifest for manifest in kubectl_kustomize(tmp_path / "overlay") if manifest["kind"] == "SecondaryScheduler"
    )
    assert scheduler["spec"]["schedulerImage"] == f"mirror.example.com/kube-scheduler@{DIGEST}"


@pytest.mark.parametrize(
    ("image", "entry"),
    [
        ("registry:5000/a/b:1", {"name": "registry:5000/a/b", "newName": "registry:5000/a/b", "newTag": "1"}),
        (f"r/b@{DIGEST}", {"name": "r/b", "newName": "r/b", "digest": DIGEST}),
        # kustomize would drop the tag
        (f"r/b:1@{DIGEST}", {"name": "r/b", "newName": "r/b"}),
        ("r/b", {"name": "r/b", "newName": "r/b"}),
    ],
)
def test_an_entry_changes_nothing_until_somebody_edits_it(tmp_path: Path, image: str, entry: dict[str, str]) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": image}]}}
    rendered = build([registered("Deployment", "a", spec={"template": pod})], show_secrets=False)
    for file in kustomization(rendered, "test"):
        (tmp_path / file.path).write_text(file.text)
    assert yaml.safe_load((tmp_path / "kustomization.yaml").read_text())["images"] == [entry]
    for built in (kustomizing.build(tmp_path), *([kubectl_kustomize(tmp_path)] if shutil.which("kubectl") else [])):
        (manifest,) = built
        assert manifest["spec"]["template"] == pod


def test_what_is_left_out_is_a_comment_and_no_resource() -> None:
    secret = registered("Secret", "s", stringData={"token": {**SECRET_MARK, "value": "canary"}})
    files = kustomization(build([registered("ConfigMap", "a"), secret], show_secrets=False), "test")
    main, config_map = files
    assert yaml.safe_load(main.text)["resources"] == [config_map.path]
    assert "# Secret ns/s is left out:" in main.text
    assert "create secret generic s --from-file=token=FILE" in main.text
    assert "canary" not in "".join(file.text for file in files)


def test_annotations_of_an_object_stay(tmp_path: Path) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"mine": "1"}}}
    _, file = kustomization([RenderedObject(manifest, wave=3)], "test")
    assert yaml.safe_load(file.text)["metadata"]["annotations"] == {"mine": "1", SYNC_WAVE: "3"}


@pytest.mark.slow
def test_a_later_rendering_replaces_the_files_of_another_format_and_leaves_those_of_others(
    project: Project, directory: Path, tmp_path: Path
) -> None:
    target = tmp_path / "deploy"
    shutil.copytree(directory, target)
    (target / "README.md").write_text("mine\n")
    assert project.render("--stack", "plain", "--output-dir", str(target)).returncode == 0
    names = {file.name for file in target.iterdir()}
    assert "README.md" in names
    assert not {"kustomization.yaml", "image-fields.yaml"} & names
    (target / "kustomization.yaml").write_text("resources: [mine.yaml]\n")
    before = sorted(target.iterdir())
    done = project.render("--stack", "plain", "--format", "kustomize", "--output-dir", str(target))
    assert done.returncode == ExitCode.ERROR
    assert "kustomization.yaml: is not of an earlier rendering" in done.stderr
    assert sorted(target.iterdir()) == before


def test_a_kustomization_needs_a_directory(project: Project) -> None:
    done = project.render("--stack", "plain", "--format", "kustomize")
    assert done.returncode == ExitCode.USAGE
    assert "--output-dir DIR" in done.stderr
