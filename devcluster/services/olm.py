"""The Operator Lifecycle Manager as processes of this machine, and the catalog that it installs from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from devcluster.layout import Layout
from devcluster.olm import CATALOG_USER, NAMESPACE, OLM_USER
from devcluster.probes import accepts
from devcluster.processes import ServiceProcess

HEALTH_PORT = 8080
"""Both operators listen on this port of every interface; no flag changes that."""


def opm(binary: Path, layout: Layout, ports: Mapping[str, int], catalog: Path) -> ServiceProcess:
    """Serves a file-based catalog over gRPC. It has no option for the interface: it listens on all."""
    scratch = layout.data("opm")
    scratch.mkdir(mode=0o700, exist_ok=True)
    return ServiceProcess(
        "opm",
        [
            str(binary),
            "serve",
            str(catalog),
            f"--port={ports['opm']}",
            "--pprof-addr=",
            # It would make a file below /dev.
            f"--termination-log={scratch / 'termination.log'}",
        ],
        ports=[ports["opm"]],
        # Where it unpacks the catalog; killed, it leaves that behind.
        env={"TMPDIR": str(scratch)},
        ready=accepts(ports["opm"]),
        ready_seconds=30,
        stop_seconds=2,
    )


def olm_operator(binary: Path, layout: Layout) -> ServiceProcess:
    """Installs what ClusterServiceVersions say, and keeps OperatorGroups."""
    return ServiceProcess(
        "olm-operator",
        [str(binary), f"--namespace={NAMESPACE}"],
        env={
            "KUBECONFIG": str(layout.config(f"{OLM_USER}.kubeconfig")),
            "OPERATOR_NAMESPACE": NAMESPACE,
            "OPERATOR_NAME": OLM_USER,
        },
        stop_seconds=2,
    )


def catalog_operator(binary: Path, layout: Layout) -> ServiceProcess:
    """Follows CatalogSources and Subscriptions, makes InstallPlans and carries them out."""
    return ServiceProcess(
        "catalog-operator",
        [str(binary), f"--namespace={NAMESPACE}", f"--kubeconfig={layout.config(f'{CATALOG_USER}.kubeconfig')}"],
        stop_seconds=2,
    )
