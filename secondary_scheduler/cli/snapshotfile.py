"""A snapshot of the cluster that a kubeconfig names, in a file that is written in one go."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from scheduler.kube.client import ClientConfig, ConfigError, KubeError
from scheduler.load import LoadError
from secondary_scheduler.cli.connecting import load_connection, renewed_connection
from secondary_scheduler.cli.errors import CommandError, printable, refusal
from secondary_scheduler.cli.installedconfigurations import as_running, running_configurations, running_documents
from secondary_scheduler.cli.privatefile import private_file
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin
from secondary_scheduler.clustersnapshot.reading import Say, load_document, read_snapshot
from secondary_scheduler.nodeload import VERSION_KIND
from secondary_scheduler.yamltext import dump_yaml


@contextlib.contextmanager
def cluster_to_read(kubeconfig: Path | None, context: str | None, *, renewed: bool = False) -> Iterator[ClientConfig]:
    """Yield the connection to a cluster of which a snapshot is taken.

    Args:
        kubeconfig, context: as for kubectl.
        renewed: it is used for longer than a login is valid.

    Raises:
        CommandError: there is no connection, or the cluster or the source of its load does not answer.
    """
    try:
        with contextlib.ExitStack() as stack:
            if renewed:
                config = stack.enter_context(renewed_connection(kubeconfig, context))
            else:
                config = load_connection(kubeconfig, context)
            try:
                yield config
            except ConfigError:
                raise
            except KubeError as error:
                raise refusal(error, config.server) from error
    except (ConfigError, LoadError) as error:
        raise CommandError(printable(str(error))) from error


def take_snapshot(
    config: ClientConfig,
    origin: LoadOrigin | None,
    file: Path | None,
    *,
    as_yaml: bool,
    say: Say,
    with_configuration: bool = False,
) -> Counter[str]:
    """Write a cluster's objects and load to a file or stdout; returns how many there are of each kind.

    Args:
        config: the cluster.
        origin: of the load, averaged as the installed scheduler does unless it names a window; None: without it.
        file: None: stdout.
        as_yaml: YAML, or else JSON.
        say: gets what is left out.
        with_configuration: also what the installed schedulers run, without secrets.

    Raises:
        KubeError: the cluster does not answer, or does not let us list nodes or pods.
        LoadError: the source of the load does not answer with loads.
        CommandError: the file cannot be written.
    """
    documents = read_snapshot(config, say)
    running = running_configurations(config, say) if with_configuration or origin is not None else []
    if origin is not None:
        nodes = [document.data for document in documents if document.kind == "Node"]
        documents.append(load_document(as_running(origin, running, say), nodes, say))
    if with_configuration:
        documents += running_documents(running, say)
    with _target(file) as out:
        _write([document.data for document in documents], out, as_yaml=as_yaml)
    return Counter(document.kind for document in documents if document.kind != VERSION_KIND)


def _write(documents: Iterable[bytes], out: IO[bytes], *, as_yaml: bool) -> None:
    """Write YAML documents, or a List in JSON with one object per line."""
    if as_yaml:
        for data in documents:
            out.write(b"---\n" + dump_yaml(msgspec.json.decode(data)))
    else:
        out.write(b'{"apiVersion":"v1","kind":"List","items":[\n' + b",\n".join(documents) + b"\n]}\n")
    out.flush()


@contextlib.contextmanager
def _target(file: Path | None) -> Iterator[IO[bytes]]:
    """Open the file so that it appears complete or not at all and for its owner only; or stdout."""
    if file is None:
        yield sys.stdout.buffer
        return
    with private_file(file, "--file") as out:
        yield out
