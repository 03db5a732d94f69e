"""`secondary-scheduler cluster`: the local control plane."""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from devcluster import environment, releases, state
from devcluster.cluster import ClusterStatus, LocalCluster
from devcluster.errors import DevClusterError, SpecError
from devcluster.progress import reporter
from devcluster.spec import MAX_NODES, MAX_REAL_NODES, ClusterSpec
from devcluster.state import Containers
from secondary_scheduler.cli import CommandError, ExitCode, FullOutputFormat, aligned, document_text

_CONTAINERS = {Containers.PROCESSES: "processes", Containers.PODMAN: "containers of podman"}
DEFAULT_NAME = "dev"


def _of_kubeconfig() -> str:
    return state.name_in(os.environ.get("KUBECONFIG", ""), state.default_root()) or DEFAULT_NAME


Name = Annotated[str, typer.Option("--name", help="Name of the cluster; several can run side by side.")]
CurrentName = Annotated[
    str,
    typer.Option(
        "--name",
        default_factory=_of_kubeconfig,
        show_default=f"the one of KUBECONFIG, else {DEFAULT_NAME}",
        help="Name of the cluster.",
    ),
]


Output = Annotated[FullOutputFormat, typer.Option("-o", "--output", help="Form of the output.")]
_API_VERSION = "secondary-scheduler.io/v1"
_POLL_SECONDS = 0.2


def register(parent: typer.Typer) -> None:
    """Add the group `cluster`."""
    app = typer.Typer(
        name="cluster",
        help="The local cluster: control plane, nodes and Prometheus.",
        no_args_is_help=True,
    )
    for command in (up, down, status, env):
        app.command()(_with_exit_codes(command))
    app.command("logs")(_with_exit_codes(show_logs))
    app.command("load")(_with_exit_codes(set_load))
    parent.add_typer(app)


def _with_exit_codes(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the cluster's own errors turned into those that the command line prints in one line."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except SpecError as error:
            raise CommandError(str(error), ExitCode.USAGE) from error
        except DevClusterError as error:
            raise CommandError(str(error), ExitCode.ERROR) from error

    return run


def up(
    name: Name = DEFAULT_NAME,
    nodes: Annotated[int, typer.Option(min=0, max=MAX_NODES, help="Number of simulated nodes, of three sizes.")] = 20,
    real_nodes: Annotated[
        int,
        typer.Option(min=0, max=MAX_REAL_NODES, help="Number of nodes whose pods run on this machine."),
    ] = 1,
    containers: Annotated[
        Containers, typer.Option(help="What the pods of these nodes run as; podman needs the images of `make image`.")
    ] = Containers.PROCESSES,
    kubernetes: Annotated[
        str,
        typer.Option(
            metavar="MINOR",
            envvar=releases.VARIABLE,
            help=f"Kubernetes of the control plane: {', '.join(releases.CONTROL_PLANES)}.",
        ),
    ] = releases.DEFAULT,
    api_server_port: Annotated[int, typer.Option(help="Port of the API server; 0 picks a free one.")] = 0,
    prometheus_port: Annotated[int, typer.Option(help="Port of Prometheus; 0 picks a free one.")] = 0,
    pod_loads: Annotated[
        bool,
        typer.Option("--pod-loads", help="Let the nodes' load follow the pods, as metrics-server and Prometheus show."),
    ] = False,
    olm: Annotated[bool, typer.Option("--olm", help="Also run the Operator Lifecycle Manager with a catalog.")] = False,
    olm_catalog: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="File-based catalog to serve instead of deploy/olm/catalog; implies --olm."),
    ] = None,
) -> None:
    """Start a cluster. Missing binaries are built first, once per user."""
    console = Console(stderr=True)
    cluster = LocalCluster(
        ClusterSpec(
            name=name,
            kubernetes=kubernetes,
            nodes=nodes,
            real_nodes=real_nodes,
            containers=containers,
            api_server_port=api_server_port,
            prometheus_port=prometheus_port,
            pod_loads=pod_loads,
            olm=olm or olm_catalog is not None,
            olm_catalog=olm_catalog,
        )
    )
    began = time.monotonic()
    with reporter(console) as report:
        started = cluster.start(report)
    option = "" if name == DEFAULT_NAME else f" --name {name}"
    if started:
        _print_line(console, f"Cluster {name!r} is up after {time.monotonic() - began:.1f} s: {cluster.api_server}")
        _print_line(console, f'Use it with:  eval "$(secondary-scheduler cluster env{option})"')
        _print_line(console, f"Stop it with: secondary-scheduler cluster down{option}")
    else:
        running = LocalCluster.attach(name).spec
        _print_line(
            console,
            f"Cluster {name!r} is already running Kubernetes {running.kubernetes} with {running.nodes} simulated and "
            f"{running.real_nodes} real nodes, whose pods are {_CONTAINERS[running.containers]}; nothing was changed",
        )


def down(
    name: Name = DEFAULT_NAME,
    every: Annotated[bool, typer.Option("--all", help="Stop all local clusters of this user.")] = False,
) -> None:
    """Stop every process of a cluster and delete its state."""
    console = Console(stderr=True)
    names = state.cluster_names(state.default_root()) if every else [name]
    with reporter(console) as report:
        ended = [running for running in names if LocalCluster(ClusterSpec(name=running)).stop(report)]
    if not ended:
        _print_line(
            console,
            "There is no local cluster" if every else f"There is no local cluster {name!r}{_existing_clusters()}",
        )


def status(
    name: CurrentName,
    output: Output = FullOutputFormat.TABLE,
) -> None:
    """Show whether a cluster is running, and where its files and endpoints are."""
    cluster_status = LocalCluster.attach(name).status()
    if output.is_document:
        document = {"apiVersion": _API_VERSION, "kind": "LocalCluster", **_status_data(cluster_status)}
        typer.echo(document_text(document, output), nl=False)
        return
    words = {True: "yes", False: "no"}
    facts = {key: value for key, value in _status_data(cluster_status).items() if key != "services"}
    rows = [[key, words.get(value) or str(value or "-")] for key, value in facts.items()]
    # A path that is wrapped cannot be copied.
    _print_table(rows, whole=True)
    typer.echo()
    _print_table(
        [
            ["SERVICE", "RUNNING", "PID"],
            *([service.name, words[service.running], str(service.pid)] for service in cluster_status.services),
        ]
    )


def env(name: Name = DEFAULT_NAME) -> None:
    """Print export lines after which kubectl and pulumi work on the cluster: eval "$(secondary-scheduler cluster
    env)".
    """
    cluster = LocalCluster.attach(name)
    cluster_status = cluster.status()
    if not cluster_status.running:
        # On stderr, which `eval` leaves visible.
        _print_line(
            Console(stderr=True),
            f"Cluster {name!r} is not running; start it with: secondary-scheduler cluster up --name {name}",
        )
    typer.echo(
        environment.export_lines(
            environment.variables(cluster.layout, cluster_status.prometheus, os.environ, cluster_status.olm_catalog)
        ),
        nl=False,
    )


def show_logs(
    name: CurrentName,
    service: Annotated[str, typer.Argument(help="A service (see status) or audit; all of them by default.")] = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep printing new lines.")] = False,
    lines: Annotated[int, typer.Option(min=0, help="Lines to print from the end of each log.")] = 100,
) -> None:
    """Print the services' logs."""
    directory = LocalCluster.attach(name).state_dir / "logs"
    files = log_files(directory, service)
    if not files:
        names = ", ".join(services_with_logs(directory))
        raise CommandError(f"cluster {name!r} has no service {service!r}; its services are: {names}", ExitCode.USAGE)
    for line in log_lines(files, lines, follow):
        typer.echo(line)


def services_with_logs(directory: Path) -> list[str]:
    """The services that have a log there."""
    return sorted(path.stem for path in directory.glob("*.log"))


def log_files(directory: Path, service: str) -> dict[str, Path]:
    """The log of one service, or of all when none is named; empty when there is no such service."""
    return {name: directory / f"{name}.log" for name in services_with_logs(directory) if service in ("", name)}


def log_lines(files: Mapping[str, Path], lines: int, follow: bool) -> Iterator[str]:
    """The last lines of each log; then, with `follow`, every further line until the logs are removed.

    With several logs each line begins with its service's name.
    """
    width = max((len(name) for name in files), default=0)
    opened = [
        (f"{name:<{width}} | " if len(files) > 1 else "", path.open(errors="replace")) for name, path in files.items()
    ]
    try:
        for prefix, file in opened:
            for line in deque(file, maxlen=lines):
                yield prefix + line.rstrip("\n")
        while follow and all(path.exists() for path in files.values()):
            fresh = False
            for line in _new_lines(opened):
                fresh = True
                yield line
            if not fresh:
                time.sleep(_POLL_SECONDS)
    finally:
        for _, file in opened:
            file.close()


def _new_lines(opened: Sequence[tuple[str, TextIO]]) -> Iterator[str]:
    for prefix, file in opened:
        for line in file:
            yield prefix + line.rstrip("\n")


def set_load(
    name: CurrentName,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes to change or show.")] = None,
    cpu: Annotated[str | None, typer.Option(help="CPU utilisation to simulate: 85% or 0.85.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory utilisation to simulate: 50% or 0.5.")] = None,
    output: Output = FullOutputFormat.TABLE,
) -> None:
    """Show the load of the nodes, or set it: load sim-003 --cpu 85%."""
    from devcluster import load_generator  # the server's libraries take half a second

    change = {
        key: load_generator.fraction(key, text) for key, text in (("cpu", cpu), ("memory", memory)) if text is not None
    }
    if change and not nodes:
        raise CommandError("--cpu and --memory need node names: load NODE --cpu 85%", ExitCode.USAGE)
    client = load_generator.LoadClient(LocalCluster.attach(name).load_generator_url)
    nodes_by_name = client.nodes()
    for node in nodes or ():
        if node not in nodes_by_name:
            raise CommandError(
                f"cluster {name!r} has no node {node!r}; list them with: secondary-scheduler cluster load"
            )
        if change:
            nodes_by_name[node] = client.change(node, change)
    reported = {node: nodes_by_name[node] for node in nodes} if nodes else nodes_by_name
    if output.is_document:
        document = {"apiVersion": _API_VERSION, "kind": "LocalClusterLoad", "nodes": reported}
        typer.echo(document_text(document, output), nl=False)
        return
    rows = [["NODE", "CPUS", "CPU", "MEMORY"]]
    rows += [
        [node, str(load["cpus"]), f"{load['cpu']:.0%}", f"{load['memory']:.0%}"] for node, load in reported.items()
    ]
    _print_table(rows)


def _status_data(cluster_status: ClusterStatus) -> dict[str, Any]:
    return {
        "name": cluster_status.name,
        "kubernetes": cluster_status.kubernetes,
        "running": cluster_status.running,
        "kubeconfig": str(cluster_status.kubeconfig),
        "readonlyKubeconfig": str(cluster_status.kubeconfig.with_name("kubeconfig-readonly")),
        "apiServer": cluster_status.api_server,
        "prometheus": cluster_status.prometheus,
        "olmCatalog": cluster_status.olm_catalog,
        "stateDir": str(cluster_status.state_dir),
        "services": [
            {"name": service.name, "pid": service.pid, "running": service.running, "log": str(service.log)}
            for service in cluster_status.services
        ],
    }


def _existing_clusters() -> str:
    names = state.cluster_names(state.default_root())
    return f"; existing clusters: {', '.join(names)}" if names else ""


def _print_table(rows: Sequence[Sequence[str]], *, whole: bool = False) -> None:
    for line in aligned(rows, whole=whole):
        typer.echo(line)


def _print_line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
