"""What `preflight` checks: sources of a configuration or stack, or what OpenShift has, and with which credential."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler.config import Configuration
from scheduler.kube.client import BadRequest, ClientConfig, KubeError
from scheduler.kube.client.sync import SyncConnection
from scheduler.load import KnownNode, LoadSettings, configured_sources, list_nodes, load_source
from secondary_scheduler.cli import stackfile
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.preflight import openshift
from secondary_scheduler.cli.preflight.checks import Check, Examination, Status
from secondary_scheduler.cli.reading import read_configuration

_ALL = frozenset({"cpu_average", "cpu_stddev", "memory_average", "memory_stddev"})
_NEEDED = {"TargetLoadPacking": frozenset({"cpu_average"}), "Peaks": frozenset({"cpu_average"})}
_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The command's options."""

    config: Path | None
    stack: Path | None
    address: str | None
    token_file: Path | None
    ca_file: Path | None
    service_account: str | None
    selector: str
    kubeconfig: Path | None
    context: str | None


@dataclass(slots=True)
class Target:
    """One source, and what is known before it is asked."""

    key: str
    settings: LoadSettings
    needed: frozenset[str]
    api: ClientConfig
    nodes: list[KnownNode]
    counted: frozenset[str]
    own_address: str
    """For a stack: as configured, whatever stood in for it because it is reached from inside the cluster only."""
    notes: list[Check] = field(default_factory=list)

    @property
    def description(self) -> str:
        """Type and address."""
        provider = self.key.partition(":")[0]
        return f"{'load-watcher' if provider == 'watcher' else provider} {self.settings.address}".strip()

    def checks(self) -> Iterator[Check]:
        """All checks, as far as they can be made."""
        yield from self.notes
        if any(note.status is Status.FAILED for note in self.notes):
            return
        source = load_source(self.key, self.settings, self.api)
        try:
            yield from Examination(self.settings, source, self.nodes, self.counted, self.needed).run()
        finally:
            source.close()


@contextlib.contextmanager
def find_targets(wanted: Wanted) -> Iterator[list[Target]]:
    """Find what is to be checked; files with certificates that were needed are gone at the end.

    Raises:
        CommandError: a file is not valid, there is no source in it, or no connection to a cluster.
    """
    if wanted.config is not None and wanted.stack is not None:
        raise CommandError("--config and --stack: give one of them", ExitCode.USAGE)
    sources, needed, kept = _sources(wanted)
    try:
        api = ClientConfig.load(wanted.kubeconfig, wanted.context)
        connection = SyncConnection(api, timeout=_TIMEOUT, user_agent="secondary-scheduler/preflight")
        nodes, counted = _nodes(connection, wanted.selector)
        on_openshift = openshift.is_openshift(connection)
    except KubeError as error:
        raise CommandError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="preflight-") as directory:
        cluster = Check("cluster", Status.OK, f"{api.server}: {len(counted)} nodes must have a load")
        finder = _Finder(wanted, connection, Path(directory), on_openshift, kept)
        targets = []
        for key, settings in (sources or finder.discovered()).items():
            found, notes = finder.complete(key, settings)
            needs, own = needed.get(key, _ALL), settings.address or found.address
            targets.append(Target(key, found, needs, api, nodes, counted, own, [cluster, *notes]))
        yield targets
    connection.close()


@dataclass(frozen=True, slots=True)
class Kept:
    """What a stack keeps for the source, in clear only here."""

    token: str | None = field(default=None, repr=False)
    authority: str | None = None
    own_account: bool = False
    encrypted: bool = False
    secret: str = ""
    secret_keys: tuple[str, str | None] = ("", None)


class _Finder:
    """Completes a source with an address and a credential that work from here."""

    def __init__(
        self, wanted: Wanted, connection: SyncConnection, directory: Path, on_openshift: bool, kept: Kept
    ) -> None:
        self._wanted, self._connection, self._directory = wanted, connection, directory
        self._on_openshift, self._kept = on_openshift, kept

    def discovered(self) -> dict[str, LoadSettings]:
        """The cluster's own monitoring.

        Raises:
            CommandError: it is not known where that is.
        """
        if not self._on_openshift:
            raise CommandError(
                "there is nothing to check: give --config, --stack or --address (only on OpenShift is it known where"
                " the monitoring is)",
                ExitCode.USAGE,
            )
        return {"Prometheus:": LoadSettings(address="")}

    def complete(self, key: str, settings: LoadSettings) -> tuple[LoadSettings, list[Check]]:
        """Return the settings to ask with, and what is to be said of how they were found."""
        notes: list[Check] = []
        if key.startswith("KubernetesMetricsServer"):
            return settings, notes
        host = urlsplit(settings.address).hostname or ""
        inside = not host or host.endswith((".svc", ".svc.cluster.local"))
        if self._on_openshift and inside and not os.environ.get("KUBERNETES_SERVICE_HOST"):
            settings = self._by_route(settings, notes)
        return self._with_credential(key, settings, notes), notes

    def _by_route(self, settings: LoadSettings, notes: list[Check]) -> LoadSettings:
        try:
            route = openshift.find_route(self._connection)
        except (openshift.OpenShiftError, KubeError) as error:
            notes.append(Check("route", Status.FAILED, str(error), "or give the source with --address"))
            return settings
        instead = f", in place of {settings.address}, which is reached from inside only" if settings.address else ""
        notes.append(Check("route", Status.OK, f"{route.name}: {route.address}{instead}"))
        ca_file = self._wanted.ca_file
        if ca_file is None and (authority := openshift.ingress_authority(self._connection)):
            ca_file = self._file("ingress-ca.crt", authority)
        return replace(settings, address=route.address, ca_file=ca_file)

    def _with_credential(self, key: str, settings: LoadSettings, notes: list[Check]) -> LoadSettings:
        wanted = self._wanted
        kept = self._kept = self._with_secret(self._kept, notes)
        if wanted.ca_file is not None:
            settings = replace(settings, ca_file=wanted.ca_file)
        elif kept.authority is not None:
            settings = replace(settings, ca_file=self._file("ca.crt", kept.authority))
        elif settings.ca_file is not None and not settings.ca_file.exists():
            notes.append(_elsewhere("caFile", settings.ca_file, "--ca-file"))
            settings = replace(settings, ca_file=None)
        if wanted.token_file is not None:
            return replace(settings, token_file=wanted.token_file, token=None)
        accounts = [wanted.service_account] if wanted.service_account else []
        if not accounts and self._on_openshift and not kept.token and not settings.token:
            accounts = list(openshift.ACCOUNTS)
        elif not accounts and kept.own_account:
            accounts = [openshift.OPERAND]
        if accounts:
            return self._with_account(settings, accounts, notes)
        if kept.token is not None:
            return replace(settings, token=kept.token, token_file=None)
        if kept.encrypted:
            found = "it is encrypted in the stack file, which only pulumi reads"
            notes.append(Check("tokenFile", Status.WARNING, found, "give --token-file or --service-account"))
            return replace(settings, token_file=None)
        if settings.token_file is not None and not settings.token_file.exists():
            notes.append(_elsewhere("tokenFile", settings.token_file, "--token-file or --service-account"))
            return replace(settings, token_file=None)
        return settings

    def _with_secret(self, kept: Kept, notes: list[Check]) -> Kept:
        """Read what the stack leaves to a Secret that somebody else keeps."""
        if not kept.secret or self._wanted.token_file is not None or kept.token:
            return kept
        key, authority = kept.secret_keys
        try:
            values = openshift.secret_values(self._connection, kept.secret)
        except (openshift.OpenShiftError, KubeError) as error:
            notes.append(Check("secret", Status.WARNING, str(error), "give --token-file and --ca-file"))
            return kept
        if key not in values:
            advice = "put the token there, or name the key it has"
            notes.append(Check("secret", Status.FAILED, f"{kept.secret} has no key {key}", advice))
            return kept
        notes.append(Check("secret", Status.OK, f"{kept.secret}, key {key}"))
        return replace(kept, token=values[key].strip(), authority=values.get(authority or "") or kept.authority)

    def _with_account(self, settings: LoadSettings, accounts: list[str], notes: list[Check]) -> LoadSettings:
        problem = ""
        for account in accounts:
            try:
                token = openshift.bound_token(self._connection, account)
            except openshift.OpenShiftError as error:
                problem = problem or str(error)
                continue
            except KubeError as error:
                raise CommandError(str(error)) from error
            found = f"of {account}, for {openshift.TOKEN_SECONDS // 60} minutes"
            if account != accounts[0]:
                found += f" ({accounts[0]} does not exist yet)"
            notes.append(Check("account", Status.OK, found))
            return replace(settings, token=token, token_file=None)
        notes.append(Check("account", Status.FAILED, problem, "name one that exists with --service-account"))
        return settings

    def _file(self, name: str, content: str) -> Path:
        path = self._directory / name
        path.write_text(content, encoding="utf-8")
        return path


def _elsewhere(what: str, path: Path, option: str) -> Check:
    return Check(what, Status.WARNING, f"{path} is not here, as it will be in the scheduler's pod", f"give {option}")


def _nodes(connection: SyncConnection, selector: str) -> tuple[list[KnownNode], frozenset[str]]:
    """All nodes, and the names of those that must have a load."""
    try:
        nodes = list_nodes(connection.get)
        chosen = list_nodes(connection.get, selector) if selector else nodes
    except BadRequest as error:
        raise CommandError(f"--selector {selector}: {error.message}", ExitCode.USAGE) from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    return nodes, frozenset(node.name for node in chosen)


def _sources(wanted: Wanted) -> tuple[dict[str, LoadSettings], dict[str, frozenset[str]], Kept]:
    """The sources by key, the figures that are needed of each, and the stack's credential."""
    kept = Kept()
    configuration: Configuration | None = None
    if wanted.config is not None:
        configuration = read_configuration(wanted.config)
    elif wanted.stack is not None:
        configuration, kept = _stack(wanted.stack)
    if configuration is None:
        return ({f"Prometheus:{wanted.address}": LoadSettings(wanted.address)} if wanted.address else {}), {}, kept
    sources, _ = configured_sources(configuration.profiles)
    if not sources:
        file = wanted.config or wanted.stack
        raise CommandError(f"{file}: no plugin that is enabled reads the nodes' load", ExitCode.INVALID_INPUT)
    needed: dict[str, frozenset[str]] = {}
    for profile in configuration.profiles:
        for plugin in profile.enabled:
            args: Any = profile.args(plugin)
            key = args.source_key() if args is not None else None
            if key is not None:
                needed[key] = needed.get(key, frozenset()) | _NEEDED.get(plugin, _ALL)
    if wanted.address:
        if len(sources) > 1:
            raise CommandError("--address: the file names several sources; check them one by one", ExitCode.USAGE)
        ((key, settings),) = sources.items()
        sources = {key: replace(settings, address=wanted.address)}
    return sources, needed, kept


def _stack(file: Path) -> tuple[Configuration, Kept]:
    text = file.read_text(encoding="utf-8")
    if missing := stackfile.missing_variables(text):
        raise CommandError(
            f"{file}: refers to {', '.join(missing)}, not set here; for the local cluster:"
            ' eval "$(secondary-scheduler cluster env)"'
        )
    configuration, problems, credentials = stackfile.examine_stack(file, text)
    errors = [problem for problem in problems if problem.severity == "error"]
    if configuration is None or errors:
        raise CommandError("\n".join(str(problem) for problem in errors), ExitCode.INVALID_INPUT)
    encrypted = credentials.token == stackfile.ENCRYPTED
    secret = credentials.existing_secret
    return configuration, Kept(
        token=None if encrypted else credentials.token or None,
        authority=credentials.certificate_authority,
        own_account=credentials.cluster_role is not None,
        encrypted=encrypted,
        secret=secret.name if secret else "",
        secret_keys=(secret.key, secret.ca_key) if secret else ("", None),
    )
