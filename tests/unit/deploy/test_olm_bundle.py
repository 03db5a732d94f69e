"""The files below deploy/olm: they match the components, and rendering is reproducible.

That opm makes this catalog of this bundle is shown where opm is: tests/integration/olm.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from components import _operator_rules as rules
from components.namespace import NAMESPACE
from scheduler.catalog import shipped_cluster_roles, static_cluster_roles
from tools import olm_bundle
from tools.olm_bundle import OUTPUT, PACKAGE, BundleRelease

CSV = OUTPUT / "bundle/manifests" / f"{PACKAGE}.clusterserviceversion.yaml"


@pytest.fixture(scope="module")
def checked_in() -> dict[str, Any]:
    files = (path for path in (OUTPUT / "bundle").rglob("*") if path.is_file())
    return {str(path.relative_to(OUTPUT / "bundle")): yaml.safe_load(path.read_text()) for path in files}


@pytest.fixture(scope="module")
def csv() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(CSV.read_text())
    return content


def test_the_bundle_matches_the_components(checked_in: dict[str, Any]) -> None:
    assert checked_in == olm_bundle.bundle(BundleRelease()), "run: make olm"


def test_the_operator_gets_the_rights_of_an_install_from_manifests(csv: dict[str, Any]) -> None:
    strategy = csv["spec"]["install"]["spec"]
    account = {"serviceAccountName": "secondary-scheduler-operator"}
    expected = rules.cluster_rules(static_cluster_roles(), [(NAMESPACE, "cluster")], rebalancers=True)
    assert strategy["clusterPermissions"] == [{**account, "rules": expected}]
    assert strategy["permissions"] == [{**account, "rules": rules.namespace_rules()}]


def test_the_bundle_has_every_cluster_role_that_an_installation_ships(checked_in: dict[str, Any]) -> None:
    roles = {
        each["metadata"]["name"]: each["rules"] for each in checked_in.values() if each.get("kind") == "ClusterRole"
    }
    assert roles == {name: [rule.to_dict() for rule in rules] for name, rules in shipped_cluster_roles().items()}


def test_no_cluster_role_belongs_to_a_version_with_which_olm_would_delete_it(checked_in: dict[str, Any]) -> None:
    roles = [each["metadata"] for each in checked_in.values() if each.get("kind") == "ClusterRole"]
    assert roles
    for metadata in roles:
        assert set(metadata["labels"]) == {"app.kubernetes.io/part-of", "app.kubernetes.io/component"}
        assert not metadata.get("ownerReferences")


def test_every_image_is_listed_under_related_images(csv: dict[str, Any]) -> None:
    (deployment,) = csv["spec"]["install"]["spec"]["deployments"]
    run = {container["image"] for container in deployment["spec"]["template"]["spec"]["containers"]}
    (example,) = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    named = {related["image"] for related in csv["spec"]["relatedImages"]}
    assert named == run | {example["spec"]["schedulerImage"]}


def test_other_images_go_everywhere() -> None:
    release = BundleRelease("registry.example.com/operator@sha256:1", "registry.example.com/scheduler@sha256:2")
    text = json.dumps(olm_bundle.bundle(release))
    assert "localhost/" not in text
    assert release.operator_image in text
    assert release.scheduler_image in text


def test_only_the_operators_own_namespace_can_be_watched(csv: dict[str, Any]) -> None:
    supported = [mode["type"] for mode in csv["spec"]["installModes"] if mode["supported"]]
    assert supported == ["OwnNamespace"]
    assert csv["metadata"]["annotations"]["operatorframework.io/suggested-namespace"] == NAMESPACE


def test_the_catalog_carries_the_whole_bundle_and_no_image_to_unpack(checked_in: dict[str, Any]) -> None:
    package, channel, bundle = documents(OUTPUT / "catalog" / PACKAGE / "catalog.json")
    assert (package["name"], package["defaultChannel"]) == (PACKAGE, channel["name"])
    assert [entry["name"] for entry in channel["entries"]] == [BundleRelease().csv_name] == [bundle["name"]]
    assert bundle.get("image", "") == ""
    carried = [each["value"]["data"] for each in bundle["properties"] if each["type"] == "olm.bundle.object"]
    manifests = [content for path, content in checked_in.items() if path.startswith("manifests/")]
    key = json.dumps
    assert sorted((json.loads(base64.b64decode(each)) for each in carried), key=key) == sorted(manifests, key=key)


def test_the_bundles_image_has_the_labels_of_its_annotations(checked_in: dict[str, Any]) -> None:
    text = (OUTPUT / "bundle.Containerfile").read_text()
    labels = dict(re.findall(r'(operators\.operatorframework\.io\.\S+)="([^"]*)"', text))
    assert labels == checked_in["metadata/annotations.yaml"]["annotations"]


def test_the_bundle_shows_an_icon_that_is_an_svg(csv: dict[str, Any]) -> None:
    (icon,) = csv["spec"]["icon"]
    assert icon["mediatype"] == "image/svg+xml"
    assert ElementTree.fromstring(base64.b64decode(icon["base64data"])).tag == "{http://www.w3.org/2000/svg}svg"
    (package, *_) = documents(OUTPUT / "catalog" / PACKAGE / "catalog.json")
    assert package["icon"] == icon


def test_it_passes_what_the_scorecard_of_operator_sdk_looks_at(csv: dict[str, Any], checked_in: dict[str, Any]) -> None:
    # Its tests by name: basic-check-spec, olm-crds-have-validation, olm-crds-have-resources, olm-spec-descriptors,
    # olm-status-descriptors, olm-bundle-validation.
    (owned,) = csv["spec"]["customresourcedefinitions"]["owned"]
    crd = checked_in["manifests/secondaryschedulers.operator.openshift.io.crd.yaml"]
    (version,) = crd["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    (example,) = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    assert (example["apiVersion"], example["kind"]) == (
        f"{crd['spec']['group']}/{owned['version']}",
        owned["kind"],
    )
    assert example["spec"]
    assert all(fields[part]["properties"] for part in ("spec", "status"))
    described = {part: {each["path"]: each for each in owned[f"{part}Descriptors"]} for part in ("spec", "status")}
    for part, descriptors in described.items():
        assert set(descriptors) == set(fields[part]["properties"])
        assert all(each["displayName"] and each["description"] for each in descriptors.values())
    assert set(example["spec"]) <= set(described["spec"])


def test_the_kinds_that_it_says_it_makes_are_those_that_the_operator_may_create(csv: dict[str, Any]) -> None:
    install = csv["spec"]["install"]["spec"]
    created = {
        resource
        for part in ("permissions", "clusterPermissions")
        for rule in install[part][0]["rules"]
        if "create" in rule["verbs"]
        for resource in rule["resources"]
    }
    # What it asks, its own Lease, what it reports, what a rebalancer has, and what it may only grant to one.
    others = {"tokenreviews", "subjectaccessreviews", "leases", "events", "validatingadmissionpolicies"}
    others |= {"validatingadmissionpolicybindings", "pods", "configmaps"}
    (owned,) = csv["spec"]["customresourcedefinitions"]["owned"]
    plurals = {re.sub(r"y$", "ie", each["kind"].lower()) + "s" for each in owned["resources"]}
    assert plurals == created - others


def documents(path: Path) -> list[dict[str, Any]]:
    decoder, text, documents = json.JSONDecoder(), path.read_text(), []
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        documents.append(document)
    return documents
