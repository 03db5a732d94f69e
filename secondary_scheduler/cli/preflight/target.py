"""What `preflight` checks, and with which credential: sources of a configuration or stack, or OpenShift's own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler.catalog import CredentialRules, address_problem
from scheduler.config import Configuration, ConfigurationError, Extender, find_configuration
from scheduler.kube.client import BadRequest, ClientConfig, ConfigError, KubeError, SyncConnection
from scheduler.load import (
    METRICS_SERVER,
    AddressedNode,
    LoadSettings,
    configured_sources,
    list_nodes,
    load_source,
    provider_of,
)
from secondary_scheduler.cli import stackfile
from secondary_scheduler.cli.connecting import load_connection
from secondary_scheduler.cli.errors import CommandError, ExitCode, refusal
from secondary_scheduler.cli.preflight import openshift
from secondary_scheduler.cli.preflight.admission import AdmissionTarget
from secondary_scheduler.cli.preflight.checks import Check, CheckStatus, Examination
from secondary_scheduler.cli.preflight.extenders import ExtenderTarget
from secondary_scheduler.files import read_text

_ALL = frozenset({"cpu_average", "cpu_stddev", "memory_average", "memory_stddev"})
_NEEDED = {
    "TargetLoadPacking": frozenset({"cpu_average"}),
    "Peaks": frozenset({"cpu_average"}),
    "HighLoadFilter": frozenset({"cpu_average", "memory_average"}),
}
_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    """The command's options."""

    config: Path | None
    address: str | None
    token_file: Path | None
    ca_file: Path | None
    service_account: str | None
    selector: str
    kubeconfig: Path | None
    context: str | None
    allow_insecure: bool = False
    namespace: str | None = None
    """Of an account that is named without one; None for the context's."""

    def account(self, default_namespace: str) -> str:
        """Namespace and name of the account."""
        name = self.service_account or ""
        return name if "/" in name else f"{self.namespace or default_namespace}/{name}"


@dataclass(slots=True)
class CheckTarget:
    """One source, and what is known before it is asked."""

    key: str
    settings: LoadSettings
    needed: frozenset[str]
    api: ClientConfig
    nodes: list[AddressedNode]
    counted: frozenset[str]
    own_address: str
    """The address as configured, even where a route replaces it because it is only reachable inside the cluster."""
    notes: list[Check] = field(default_factory=list)

    @property
    def description(self) -> str:
        """Type and address of the source."""
        provider = provider_of(self.key)
        return f"{'load-watcher' if provider == 'watcher' else provider} {self.settings.address}".strip()

    def checks(self) -> Iterator[Check]:
        """Yield the notes, then the checks unless a note is a failure."""
        yield from self.notes
        if any(note.status is CheckStatus.FAILED for note in self.notes):
            return
        source = load_source(self.key, self.settings, self.api, object_count=lambda: len(self.nodes))
        try:
            yield from Examination(self.settings, source, self.nodes, self.counted, self.needed).run()
        finally:
            source.close()


AnyTarget = CheckTarget | ExtenderTarget | AdmissionTarget


@contextlib.contextmanager
def find_targets(request: PreflightRequest) -> Iterator[list[AnyTarget]]:
    """Find what to check; temporary certificate files are removed at the end.

    Raises:
        CommandError: a file is not valid or names neither source nor extender, or the cluster cannot be reached.
    """
    sources, needed, credential, extenders, opt_in = _sources(request)
    with contextlib.ExitStack() as opened:
        targets: list[AnyTarget] = []
        if sources or not (extenders or opt_in):
            targets += _sources_of_load(request, sources, needed, credential, opened)
        targets += map(ExtenderTarget, extenders)
        if opt_in is not None:
            targets.append(_admission(request, opt_in))
        yield targets


def _admission(request: PreflightRequest, opt_in: Any) -> AdmissionTarget:
    try:
        api = load_connection(request.kubeconfig, request.context)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    return AdmissionTarget(api, opt_in.api.version, [target.scheduler_name for target in opt_in.targets])


def _sources_of_load(
    request: PreflightRequest,
    sources: dict[str, LoadSettings],
    needed: dict[str, frozenset[str]],
    credential: StackCredential,
    opened: contextlib.ExitStack,
) -> Iterator[CheckTarget]:
    try:
        api = load_connection(request.kubeconfig, request.context)
        connection = SyncConnection(api, timeout=_TIMEOUT, user_agent="secondary-scheduler/preflight")
        opened.callback(connection.close)
        nodes, counted = _nodes(connection, request.selector)
        on_openshift = openshift.is_openshift(connection)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    except KubeError as error:
        raise refusal(error, api.server) from error
    directory = opened.enter_context(tempfile.TemporaryDirectory(prefix="preflight-"))
    cluster = Check("cluster", CheckStatus.OK, f"{api.server}: {len(counted)} nodes must have a load")
    builder = _TargetBuilder(request, connection, api.namespace, Path(directory), on_openshift, credential)
    for key, settings in (sources or builder.discovered()).items():
        completed, notes = builder.complete(key, settings)
        figures, own_address = needed.get(key, _ALL), settings.address or completed.address
        yield CheckTarget(key, completed, figures, api, nodes, counted, own_address, [cluster, *notes])


@dataclass(frozen=True, slots=True)
class StackCredential:
    """The credential that a stack file holds or names for the source."""

    token: str | None = field(default=None, repr=False)
    authority: str | None = None
    own_account: bool = False
    encrypted: bool = False
    secret: str = ""
    secret_keys: tuple[str, str | None] = ("", None)
    allow_insecure: bool = False


class _TargetBuilder:
    """Completes a source with an address and a credential that work from this machine."""

    def __init__(
        self,
        request: PreflightRequest,
        connection: SyncConnection,
        namespace: str,
        directory: Path,
        on_openshift: bool,
        credential: StackCredential,
    ) -> None:
        """Create a builder of targets.

        Args:
            request: the command's options, which win over what is found.
            connection: the cluster whose routes, Secrets and tokens are used.
            namespace: of an account that is named without one.
            directory: for CA files that have to be written; removed by the caller.
            on_openshift: whether the cluster serves routes.
            credential: what the stack file holds or names.
        """
        self._request, self._connection, self._namespace, self._directory = request, connection, namespace, directory
        self._on_openshift, self._credential = on_openshift, credential

    def discovered(self) -> dict[str, LoadSettings]:
        """Return the cluster's own monitoring as the source.

        Raises:
            CommandError: the cluster is not OpenShift, so that its place is not known.
        """
        if not self._on_openshift:
            raise CommandError(
                "nothing to check: give --config or --address (only on OpenShift does preflight find the"
                " monitoring by itself)",
                ExitCode.USAGE,
            )
        return {"Prometheus:": LoadSettings(address="")}

    def complete(self, key: str, settings: LoadSettings) -> tuple[LoadSettings, list[Check]]:
        """Return the settings to read with, and notes on how they were found."""
        notes: list[Check] = []
        if provider_of(key) == METRICS_SERVER:
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
            notes.append(Check("route", CheckStatus.FAILED, str(error), "give the source with --address"))
            return settings
        instead = (
            f", instead of {settings.address}, which is only reachable inside the cluster" if settings.address else ""
        )
        notes.append(Check("route", CheckStatus.OK, f"{route.name}: {route.address}{instead}"))
        ca_file = self._request.ca_file
        if ca_file is None and (authority := openshift.ingress_authority(self._connection)):
            ca_file = self._file("ingress-ca.crt", authority)
        return replace(settings, address=route.address, ca_file=ca_file)

    def _with_credential(self, key: str, settings: LoadSettings, notes: list[Check]) -> LoadSettings:
        request = self._request
        credential = self._credential = self._with_secret(self._credential, notes)
        if request.ca_file is not None:
            settings = replace(settings, ca_file=request.ca_file)
        elif credential.authority is not None:
            settings = replace(settings, ca_file=self._file("ca.crt", credential.authority))
        elif settings.ca_file is not None and not settings.ca_file.exists():
            notes.append(_elsewhere("caFile", settings.ca_file, "--ca-file"))
            settings = replace(settings, ca_file=None)
        if request.token_file is not None:
            # Whoever runs the command may name any file; a configuration may only name mounted credentials.
            rules = CredentialRules(directory=None, allow_insecure=request.allow_insecure)
            return replace(settings, token_file=request.token_file, token=None, rules=rules)
        accounts = [request.account(self._namespace)] if request.service_account else []
        if not accounts and self._on_openshift and not credential.token and not settings.token:
            accounts = list(openshift.ACCOUNTS)
        elif not accounts and credential.own_account:
            accounts = [openshift.OPERAND]
        if accounts:
            return self._with_account(settings, accounts, notes)
        if credential.token is not None:
            return replace(settings, token=credential.token, token_file=None)
        if credential.encrypted:
            finding = "it is encrypted in the stack file, and only pulumi can decrypt it"
            notes.append(Check("tokenFile", CheckStatus.WARNING, finding, "give --token-file or --service-account"))
            return replace(settings, token_file=None)
        if settings.token_file is not None and not settings.token_file.exists():
            notes.append(_elsewhere("tokenFile", settings.token_file, "--token-file or --service-account"))
            return replace(settings, token_file=None)
        return settings

    def _with_secret(self, credential: StackCredential, notes: list[Check]) -> StackCredential:
        """Read the credential from the Secret that the stack names."""
        if not credential.secret or self._request.token_file is not None or credential.token:
            return credential
        key, authority = credential.secret_keys
        try:
            values = openshift.secret_values(self._connection, credential.secret)
        except (openshift.OpenShiftError, KubeError) as error:
            notes.append(Check("secret", CheckStatus.WARNING, str(error), "give --token-file and --ca-file"))
            return credential
        if key not in values:
            advice = "put the token under that key, or name the key that holds it"
            notes.append(Check("secret", CheckStatus.FAILED, f"{credential.secret} has no key {key}", advice))
            return credential
        notes.append(Check("secret", CheckStatus.OK, f"{credential.secret}, key {key}"))
        return replace(
            credential, token=values[key].strip(), authority=values.get(authority or "") or credential.authority
        )

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
            finding = f"of {account}, for {openshift.TOKEN_SECONDS // 60} minutes"
            if account != accounts[0]:
                finding += f" ({accounts[0]} does not exist yet)"
            notes.append(Check("account", CheckStatus.OK, finding))
            return replace(settings, token=token, token_file=None)
        notes.append(Check("account", CheckStatus.FAILED, problem, "name one that exists with --service-account"))
        return settings

    def _file(self, name: str, content: str) -> Path:
        path = self._directory / name
        path.write_text(content, encoding="utf-8")
        return path


def _elsewhere(name: str, path: Path, option: str) -> Check:
    finding = f"{path} is a file of the scheduler's pod, not of this machine"
    return Check(name, CheckStatus.WARNING, finding, f"give {option}")


def _nodes(connection: SyncConnection, selector: str) -> tuple[list[AddressedNode], frozenset[str]]:
    """Return all nodes, and the names of those that must have a load."""
    try:
        nodes = list_nodes(connection.get)
        chosen = list_nodes(connection.get, selector) if selector else nodes
    except BadRequest as error:
        raise CommandError(f"--selector {selector}: {error.message}", ExitCode.USAGE) from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    return nodes, frozenset(node.name for node in chosen)


def _sources(
    request: PreflightRequest,
) -> tuple[dict[str, LoadSettings], dict[str, frozenset[str]], StackCredential, Sequence[Extender], Any]:
    """Return the sources by key, the figures that each must have, the stack's credential, the extenders, and what opts
    pods in (`ExaminedStack.opt_in`)."""
    credential, opt_in = StackCredential(), None
    configuration: Configuration | None = None
    if request.config is not None:
        text = read_text(request.config)
        if stackfile.is_stack_file(request.config, text):
            configuration, credential, opt_in = _stack(request.config, text)
        else:
            configuration = _configuration(request.config, text)
    if request.address and (problem := address_problem(request.address)):
        raise CommandError(f"--address: {problem}", ExitCode.USAGE)
    if configuration is None:
        return (
            ({f"Prometheus:{request.address}": LoadSettings(request.address)} if request.address else {}),
            {},
            credential,
            (),
            None,
        )
    rules = CredentialRules(allow_insecure=request.allow_insecure or credential.allow_insecure)
    sources, _ = configured_sources(configuration.profiles, rules)
    extenders = configuration.model.extenders
    if not sources and not extenders and opt_in is None:
        raise CommandError(
            f"{request.config}: no enabled plugin reads the load of nodes, and there is neither an extender nor optIn",
            ExitCode.INVALID_INPUT,
        )
    needed: dict[str, frozenset[str]] = {}
    for profile in configuration.profiles:
        for plugin in profile.enabled:
            args: Any = profile.args(plugin)
            key = args.source_key() if args is not None else None
            if key is not None:
                needed[key] = needed.get(key, frozenset()) | _NEEDED.get(plugin, _ALL)
    if request.address and sources:
        if len(sources) > 1:
            raise CommandError("--address: the file names several sources; check them one at a time", ExitCode.USAGE)
        ((key, settings),) = sources.items()
        sources = {key: replace(settings, address=request.address)}
    return sources, needed, credential, extenders, opt_in


def _configuration(file: Path, text: str) -> Configuration:
    try:
        # Its load source is asked: what it says about that is checked, and not taken to come from elsewhere.
        return find_configuration(text, str(file)).load(
            allow_token_in_config_map=True, allow_default_scheduler_name=True
        )
    except ConfigurationError as error:
        raise CommandError(str(error), ExitCode.INVALID_INPUT) from error


def _stack(file: Path, text: str) -> tuple[Configuration, StackCredential, Any]:
    examined = stackfile.read_stack_file(file, text)
    credentials = examined.credentials
    encrypted = credentials.token == stackfile.ENCRYPTED
    secret = credentials.existing_secret
    credential = StackCredential(
        token=None if encrypted else credentials.token or None,
        authority=credentials.certificate_authority,
        own_account=credentials.cluster_role is not None,
        encrypted=encrypted,
        secret=secret.name if secret else "",
        secret_keys=(secret.key, secret.ca_key) if secret else ("", None),
        allow_insecure=credentials.allow_insecure,
    )
    assert examined.source is not None
    return examined.source, credential, examined.opt_in
