"""Renders `deploy/olm`: the bundle and the file-based catalog from which OLM installs our operator.

The bundle is what the Pulumi component `OperatorInstall` registers, in OLM's form: a ClusterServiceVersion with the
Deployment and the operator's rights, the CRD, and the scheduler's ClusterRoles. The catalog contains the whole bundle,
so that no pod has to unpack an image of it; `opm` renders it from the bundle and validates it.

    tools/olm_bundle.py                                      what is checked in, for the images of the local cluster
    tools/olm_bundle.py --output DIR --operator-image IMAGE --scheduler-image IMAGE     for your own registry
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # components and stacks are not installed

import yaml  # noqa: E402
from pulumi.runtime import mocks  # noqa: E402
from pulumi.runtime.settings import set_root_resource  # noqa: E402
from pulumi.runtime.stack import run_in_stack  # noqa: E402
from rich.console import Console  # noqa: E402

from components.crd import load_manifest  # noqa: E402
from components.namespace import NAMESPACE  # noqa: E402
from components.operator_install import OPERATOR_NAME, OperatorInstall, OperatorInstallArgs  # noqa: E402
from components.scheduler_roles import bundled_role  # noqa: E402
from devcluster.errors import DevClusterError  # noqa: E402
from devcluster.progress import PlainReporter  # noqa: E402
from devcluster.toolchain.binaries import ensure  # noqa: E402
from scheduler import __version__  # noqa: E402
from scheduler.catalog import shipped_cluster_roles  # noqa: E402
from tools.pulumi_loop import program_loop  # noqa: E402

PACKAGE = "secondary-scheduler-operator"
CHANNEL = "stable"
OUTPUT = ROOT / "deploy/olm"
ICON = OUTPUT / "icon.svg"
OPERATOR_IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"
SCHEDULER_IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
Manifest = dict[str, Any]
_METADATA = "operators.operatorframework.io.bundle"
_MADE = (
    *(("Deployment", "v1"), ("ServiceAccount", "v1"), ("Service", "v1"), ("ServiceMonitor", "v1")),
    *(("Role", "v1"), ("RoleBinding", "v1"), ("ClusterRoleBinding", "v1"), ("PodDisruptionBudget", "v1")),
    *(("NetworkPolicy", "v1"), ("FlowSchema", "v1")),
)
"""What the operator creates for a SecondaryScheduler: kind and version."""
_STANDARD_FIELDS = {
    "conditions": "How it is: Available, Progressing, Degraded and others, each with a reason and a message.",
    "generations": "Generations of the objects that the operator made last, as OpenShift's operators keep them.",
    "latestAvailableRevision": "Never written here: operators of static pods count revisions in it.",
    "observedGeneration": "Generation of this object that the operator has acted on last.",
    "readyReplicas": "How many replicas of the scheduler are ready.",
}
"""Fields that the schema, which is upstream's there, does not describe."""
_DESCRIPTION = """\
Runs a second scheduler beside the cluster's own. Pods that say `schedulerName: secondary-scheduler` are placed by it;
all others stay with the default scheduler.

Create a ConfigMap with a KubeSchedulerConfiguration under the key `config.yaml`, and a SecondaryScheduler named
`cluster` in the same namespace that names the map and the scheduler's image. A new configuration or image is proven
before it is rolled out; the conditions of the SecondaryScheduler say how it stands.

Install it in the namespace openshift-secondary-scheduler-operator: its rights are written for that one. Before you
uninstall it, delete the SecondaryScheduler, while the operator can still take the scheduler away.
"""


@dataclass(frozen=True)
class BundleRelease:
    """A version of the operator, the image that it runs, and the scheduler's image that the example names."""

    operator_image: str = OPERATOR_IMAGE
    scheduler_image: str = SCHEDULER_IMAGE
    version: str = __version__

    @property
    def csv_name(self) -> str:
        """Name of its ClusterServiceVersion."""
        return f"{PACKAGE}.v{self.version}"


class _BundleRecorder(mocks.Mocks):
    """Keeps every Kubernetes object that a program registers."""

    def __init__(self) -> None:
        self.objects: list[Manifest] = []

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, Manifest]:
        if args.typ.startswith("kubernetes:"):
            self.objects.append(_with_integers(args.inputs))
        return f"{args.name}-id", args.inputs

    def call(self, args: mocks.MockCallArgs) -> tuple[Manifest, None]:
        raise AssertionError(f"an install has nothing to look up: {args.token}")


def installed_objects(image: str) -> list[Manifest]:
    """The objects of an install from manifests in the operator's namespace."""
    recorder = _BundleRecorder()
    with program_loop() as loop:
        mocks.set_mocks(recorder, project="secondary-scheduler", stack="olm", preview=False)
        # set_mocks makes a stack of its own, and there can be one only.
        set_root_resource(None)  # type: ignore[arg-type]

        def program() -> None:
            OperatorInstall("operator", OperatorInstallArgs(NAMESPACE, image, rebalancers=True))

        loop.run_until_complete(run_in_stack(program))
    return recorder.objects


def bundle(release: BundleRelease) -> dict[str, Manifest]:
    """The bundle's files: path below its directory to content."""
    objects = installed_objects(release.operator_image)
    files: dict[str, Manifest] = {}
    for name, rules in shipped_cluster_roles().items():
        files[f"manifests/{name.replace(':', '-')}.clusterrole.yaml"] = bundled_role(name, rules)
    files[f"manifests/{PACKAGE}.clusterserviceversion.yaml"] = cluster_service_version(objects, release)
    crd = load_manifest()
    files[f"manifests/{crd['metadata']['name']}.crd.yaml"] = crd
    files["metadata/annotations.yaml"] = {
        "annotations": {
            f"{_METADATA}.mediatype.v1": "registry+v1",
            f"{_METADATA}.manifests.v1": "manifests/",
            f"{_METADATA}.metadata.v1": "metadata/",
            f"{_METADATA}.package.v1": PACKAGE,
            f"{_METADATA}.channels.v1": CHANNEL,
            f"{_METADATA}.channel.default.v1": CHANNEL,
        }
    }
    return files


def cluster_service_version(objects: Sequence[Manifest], release: BundleRelease) -> Manifest:
    """The ClusterServiceVersion of an install of these objects."""
    (deployment,) = _of_kind(objects, "Deployment")
    (role,) = _of_kind(objects, "Role")
    (cluster_role,) = (role for role in _of_kind(objects, "ClusterRole") if role["metadata"]["name"] == OPERATOR_NAME)
    pod = deployment["spec"]["template"]["spec"]
    # OpenShift refuses any user but one of the namespace's range, which it then gives; elsewhere it is the image's.
    pod["securityContext"].pop("runAsUser", None)
    account = pod["serviceAccountName"]
    install = {
        "strategy": "deployment",
        "spec": {
            "deployments": [
                {
                    "name": deployment["metadata"]["name"],
                    "label": deployment["metadata"]["labels"],
                    "spec": deployment["spec"],
                }
            ],
            "clusterPermissions": [{"serviceAccountName": account, "rules": cluster_role["rules"]}],
            "permissions": [{"serviceAccountName": account, "rules": role["rules"]}],
        },
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": release.csv_name, "namespace": "placeholder", "annotations": _annotations(release)},
        "spec": {
            "displayName": "Secondary Scheduler",
            "description": _DESCRIPTION,
            "version": release.version,
            "maturity": "alpha",
            # FlowSchema v1, which the operator makes.
            "minKubeVersion": "1.29.0",
            "keywords": ["scheduler", "scheduling", "load"],
            "provider": {"name": "The secondary-scheduler project"},
            "icon": [_icon()],
            "installModes": [
                # The operator's rights name the objects of one namespace, its own.
                {"type": kind, "supported": kind == "OwnNamespace"}
                for kind in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "customresourcedefinitions": {"owned": [_owned(load_manifest())]},
            "install": install,
            "relatedImages": [
                {"name": "operator", "image": release.operator_image},
                {"name": "scheduler", "image": release.scheduler_image},
            ],
        },
    }


def _icon() -> dict[str, str]:
    return {"base64data": base64.b64encode(ICON.read_bytes()).decode(), "mediatype": "image/svg+xml"}


def _owned(crd: Manifest) -> Manifest:
    """What a console shows of the kind: its fields by the schema's own words, and the kinds that the operator makes."""
    (version,) = crd["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    return {
        "name": crd["metadata"]["name"],
        "version": version["name"],
        "kind": crd["spec"]["names"]["kind"],
        "displayName": "Secondary Scheduler",
        "description": "A scheduler beside the cluster's own. The instance is named `cluster`.",
        "resources": [{"kind": kind, "version": version} for kind, version in _MADE],
        "specDescriptors": _descriptors(fields["spec"]),
        "statusDescriptors": _descriptors(fields["status"]),
    }


def _descriptors(schema: Manifest) -> list[Manifest]:
    return [
        {
            "path": name,
            "displayName": re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[0].upper() + name[1:]),
            "description": field.get("description") or _STANDARD_FIELDS[name],
        }
        for name, field in sorted(schema["properties"].items())
    ]


def catalog(opm: Path, directory: Path, release: BundleRelease) -> str:
    """The file-based catalog, one JSON document after the other, made by opm from the bundle in a directory.

    Raises subprocess.CalledProcessError when opm refuses the bundle.
    """
    rendered = subprocess.run([opm, "render", directory, "-o", "json"], capture_output=True, text=True, check=True)
    # It upgrades whatever is older, without a list of what there was.
    entry = {"name": release.csv_name, "skipRange": f"<{release.version}"}
    package = {"schema": "olm.package", "name": PACKAGE, "defaultChannel": CHANNEL, "description": _DESCRIPTION}
    documents = [
        {**package, "icon": _icon()},
        {"schema": "olm.channel", "package": PACKAGE, "name": CHANNEL, "entries": [entry]},
        json.loads(rendered.stdout),
    ]
    return "".join(json.dumps(document, indent=1) + "\n" for document in documents)


def write(output: Path, release: BundleRelease, opm: Path) -> None:
    """Replace bundle and catalog in a directory by newly rendered ones. Raises subprocess.CalledProcessError."""
    for part in ("bundle", "catalog"):
        shutil.rmtree(output / part, ignore_errors=True)
    for path, content in bundle(release).items():
        file = output / "bundle" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of(content))
    rendered = output / "catalog" / PACKAGE / "catalog.json"
    rendered.parent.mkdir(parents=True)
    rendered.write_text(catalog(opm, output / "bundle", release))
    subprocess.run([opm, "validate", output / "catalog"], capture_output=True, text=True, check=True)


def text_of(content: Manifest) -> str:
    """A manifest as it is written."""
    return yaml.dump(content, Dumper=_BundleDumper, sort_keys=True, width=120)


def main(arguments: Sequence[str] | None = None) -> int:
    """Render; exit code 1 with one line when opm is not to be had or refuses what was made."""
    parser = argparse.ArgumentParser(description="Render the bundle and the catalog of the operator for OLM.")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="DIR", help="default: deploy/olm")
    parser.add_argument("--operator-image", default=OPERATOR_IMAGE, metavar="IMAGE", help="default: %(default)s")
    parser.add_argument("--scheduler-image", default=SCHEDULER_IMAGE, metavar="IMAGE", help="default: %(default)s")
    parsed = parser.parse_args(arguments)
    try:
        opm = ensure(["opm"], PlainReporter(Console(stderr=True)))["opm"]
        write(parsed.output, BundleRelease(parsed.operator_image, parsed.scheduler_image), opm)
    except DevClusterError as error:
        print(f"olm_bundle: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"olm_bundle: opm refuses what was rendered: {error.stderr.strip()}", file=sys.stderr)
        return 1
    return 0


def _annotations(release: BundleRelease) -> dict[str, str]:
    example = {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "SecondaryScheduler",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "spec": {
            "managementState": "Managed",
            "schedulerConfig": "secondary-scheduler-config",
            "schedulerImage": release.scheduler_image,
            "logLevel": "Normal",
        },
    }
    return {
        "alm-examples": json.dumps([example], indent=2),
        "capabilities": "Basic Install",
        "containerImage": release.operator_image,
        "description": "Runs a scheduler of your choosing beside the cluster's own.",
        "operatorframework.io/suggested-namespace": NAMESPACE,
        "operatorframework.io/cluster-monitoring": "true",
        "features.operators.openshift.io/disconnected": "true",
        "features.operators.openshift.io/tls-profiles": "true",
    }


def _with_integers(value: Any) -> Any:
    """What came over the engine's protocol, which knows floating point numbers only."""
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) else value


def _of_kind(objects: Sequence[Manifest], kind: str) -> list[Manifest]:
    return [item for item in objects if item["kind"] == kind]


class _BundleDumper(yaml.SafeDumper):
    """Long texts as blocks, nothing as an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_BundleDumper.add_representer(str, _text)


if __name__ == "__main__":
    sys.exit(main())
