"""kwok for the simulated nodes, the node agent for the real ones, and podman where that runs their pods."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from devcluster.errors import ServiceError
from devcluster.layout import Layout
from devcluster.ports import LOOPBACK
from devcluster.probes import http_ok
from devcluster.processes import ServiceProcess
from devcluster.state import Containers

SCHEDULER_IMAGE = "localhost/secondary-scheduler/kube-scheduler"
OPERATOR_IMAGE = "localhost/secondary-scheduler/operator"
_KUBE_SCHEDULER = "/bin/kube-scheduler"
_OPERATOR = "/bin/secondary-scheduler-operator"
_LOAD_WATCHER = "/bin/load-watcher"
_REBALANCER = "/bin/rebalancer"
_PAGE = "/bin/secondary-scheduler-page"
_IMAGE_USER = 65532


def kwok(binary: Path, layout: Layout, ports: Mapping[str, int]) -> ServiceProcess:
    """Keeps annotated nodes Ready and their pods Running, with kwok's own default stages."""
    return ServiceProcess(
        "kwok",
        [
            str(binary),
            f"--kubeconfig={layout.config('kwok.kubeconfig')}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--disregard-status-with-annotation-selector=kwok.x-k8s.io/status=custom",
            "--node-lease-duration-seconds=40",
            "--v=WARN",
            "--cidr=10.128.0.0/14",
            "--node-ip=10.255.0.1",
            f"--server-address={LOOPBACK}:{ports['kwok']}",
        ],
        ports=[ports["kwok"]],
        ready=http_ok(ports["kwok"], "/healthz"),
        ready_seconds=30,
        stop_seconds=2,
    )


def node_agent(node: str, index: int, layout: Layout, pod_network: str, containers: Containers) -> ServiceProcess:
    """A real Node whose pods run on this machine. It ends its pods when it is asked to end."""
    state = layout.data(node)
    state.mkdir(mode=0o700, exist_ok=True)
    return ServiceProcess(
        f"node-{node}",
        [
            sys.executable,
            "-m",
            "devcluster.node_agent",
            f"--kubeconfig={layout.node_kubeconfig(node)}",
            f"--node-name={node}",
            f"--state-dir={state}",
            f"--image-map={layout.config('images.json')}",
            f"--pod-cidr-base={pod_network}.{index}.0",
            f"--containers={containers}",
            *(f"--mask={hidden}" for hidden in layout.private),
        ],
        # Its pods have 8 s to end, then it tells the API server. podman takes a while to remove them.
        stop_seconds=25 if containers == Containers.PODMAN else 12,
        stop_first=True,
    )


def write_image_map(layout: Layout, further: Mapping[str, Mapping[str, Any]]) -> None:
    """Which images real nodes can run, and as what: the entry points of this environment, and `further` ones."""
    images: dict[str, Any] = {
        SCHEDULER_IMAGE: {
            "executables": {
                _KUBE_SCHEDULER: [sys.executable, "-m", "scheduler"],
                _REBALANCER: [sys.executable, "-m", "secondary_scheduler.rebalancer"],
            },
            # Replicas share the machine: each listens on its pod's own loopback address.
            "appendArgs": {_KUBE_SCHEDULER: ["--bind-address=$(POD_IP)"]},
            "user": _IMAGE_USER,
        },
        OPERATOR_IMAGE: {
            "executables": {
                _OPERATOR: [sys.executable, "-m", "secondary_scheduler.operator"],
                _LOAD_WATCHER: [sys.executable, "-m", "secondary_scheduler.loadwatcher"],
                _REBALANCER: [sys.executable, "-m", "secondary_scheduler.rebalancer"],
                _PAGE: [sys.executable, "-m", "secondary_scheduler.page"],
            },
            "user": _IMAGE_USER,
        },
        **further,
    }
    layout.config("images.json").write_text(json.dumps(images, indent=2))


_OTHERWISE = "or start the cluster without podman, with pods as processes"


def require_podman() -> None:
    """Raise ServiceError where podman, runc or the images of this version are missing."""
    from devcluster.node_agent import podman  # most clusters run without it, and it imports slowly

    images = [f"{repository}:{version('secondary-scheduler')}" for repository in (SCHEDULER_IMAGE, OPERATOR_IMAGE)]
    try:
        missing = podman.find_podman().missing_images(images)
    except podman.PodmanUnavailableError as error:
        raise ServiceError(f"pods cannot be containers: {error}; {_OTHERWISE}") from error
    if missing:
        raise ServiceError(
            f"pods cannot be containers: podman has no image {', '.join(missing)}: build it with `make image`; "
            f"{_OTHERWISE}"
        )


def remove_containers(directory: Path, known: Containers | None) -> None:
    """Remove the containers of a cluster by its state directory. `known`: what its containers are; None if unreadable.

    Raises ServiceError with the command that does it by hand.
    """
    program = shutil.which("podman")
    if known == Containers.PROCESSES or program is None:
        return
    from devcluster.node_agent import podman

    try:
        podman.remove_containers(program, directory)
    except podman.PodmanUnavailableError as error:
        if known is None:  # there may be none, and the rest of a damaged cluster must go
            return
        raise ServiceError(f"{error}; look with: podman ps --all, and remove them with: podman rm --force") from error
