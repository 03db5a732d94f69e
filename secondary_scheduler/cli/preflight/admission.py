"""The check of `preflight` for `optIn` of a stack: whether the cluster evaluates the policies that the stack makes.

It asks before anything is installed, so it reads only. Whether a policy that exists is applied to a pod is what
`opt-in check` finds out with a dry run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduler.catalog import MUTATING_POLICY_FLAGS, OPT_IN_POLICY
from scheduler.kube.client import ClientConfig, KubeError, SyncConnection
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.optinpolicies import (
    OptInPolicy,
    OptInReason,
    foreign_policies,
    gate_enabled,
    not_served,
    read_policies,
    served_version,
    serves,
)
from secondary_scheduler.cli.preflight.checks import Check, CheckStatus
from secondary_scheduler.clusterstatus.listing import read_object

_NAME = "admission"
_FLAGS = f"start each API server with {' and '.join(MUTATING_POLICY_FLAGS)}"
_PAGE = "docs/opt-in.md#versions says what each version needs"
_TIMEOUT = 15.0
_NAME_LIMIT = 3


@dataclass(frozen=True, slots=True)
class AdmissionTarget:
    """The cluster whose API server is to move pods.

    Attributes:
        api: the cluster.
        version: of the API group in which the stack writes its policies.
        scheduler_names: that they write into pods.
    """

    api: ClientConfig
    version: str
    scheduler_names: Sequence[str]

    @property
    def description(self) -> str:
        """What is checked, as a heading."""
        return "optIn"

    @property
    def key(self) -> str:
        """The target among others."""
        return "optIn"

    @property
    def own_address(self) -> str:
        """Nothing that could be written into a stack file."""
        return ""

    def checks(self) -> Iterator[Check]:
        """Yield the check of the API server, then one per schedulerName unless that failed."""
        agent = "secondary-scheduler/preflight"
        connection = SyncConnection(self.api, timeout=_TIMEOUT, user_agent=agent)
        try:
            yield from check_admission(connection, self.version, self.scheduler_names)
        finally:
            connection.close()


def check_admission(connection: SyncConnection, version: str, scheduler_names: Sequence[str]) -> Iterator[Check]:
    """Yield what `AdmissionTarget.checks` does, for a connection; what may not be read is a warning."""
    try:
        server = _check_server(connection, version)
        yield server
        if server.status is not CheckStatus.FAILED:
            yield from _check_policies(connection, version, scheduler_names)
    except KubeError as error:
        advice = "its user must be allowed to list mutatingadmissionpolicies and their bindings"
        yield Check(_NAME, CheckStatus.WARNING, printable(str(error)), advice)


def _check_server(connection: SyncConnection, version: str) -> Check:
    kubernetes = str(read_object(connection.get("/version"), "/version").get("gitVersion") or "unknown")
    if not serves(connection, version):
        served = served_version(connection)
        if not served:
            reason, text = not_served(kubernetes)
            return Check(_NAME, CheckStatus.FAILED, printable(f"{reason}: {text}"), _PAGE)
        finding = f"{OptInReason.VERSION}: the stack writes {version}, and {kubernetes} serves {served} only"
        advice = "set cluster.kubernetesVersion to the version of the cluster"
        return Check(_NAME, CheckStatus.FAILED, printable(finding), advice)
    finding = f"{kubernetes} serves MutatingAdmissionPolicies as {version}"
    gate = gate_enabled(connection)
    if gate is False:
        finding = f"{OptInReason.GATE_OFF}: {finding}, stores them, and does not evaluate them"
        return Check(_NAME, CheckStatus.FAILED, printable(finding), _FLAGS)
    if gate is None and version != "v1":
        advice = "allow /metrics, or run `secondary-scheduler opt-in check` once it is installed"
        return Check(_NAME, CheckStatus.WARNING, printable(f"{finding}; whether its gate is on is not known"), advice)
    return Check(_NAME, CheckStatus.OK, printable(f"{finding}{', feature gate on' if gate else ''}"))


def _check_policies(connection: SyncConnection, version: str, scheduler_names: Sequence[str]) -> Iterator[Check]:
    names = {f"{OPT_IN_POLICY}.{name}": name for name in scheduler_names}
    foreign = foreign_policies(connection, version, names)
    existing = {policy.name: policy for policy in read_policies(connection, version)}
    for policy_name, scheduler_name in names.items():
        is_foreign = policy_name in foreign
        yield _check_policy(policy_name, scheduler_name, existing.get(policy_name), is_foreign=is_foreign)
    others = [name for name in foreign if name not in names]
    if others:
        more = f" and {len(others) - _NAME_LIMIT} more" if len(others) > _NAME_LIMIT else ""
        finding = f"policy-foreign: {', '.join(others[:_NAME_LIMIT])}{more} also writes schedulerNames"
        advice = "a namespace that both select gets the name of either: delete it, or keep their selectors apart"
        yield Check("other policies", CheckStatus.WARNING, printable(finding), advice)


def _check_policy(name: str, scheduler_name: str, policy: OptInPolicy | None, *, is_foreign: bool) -> Check:
    title = f"policy {scheduler_name}"
    if is_foreign:
        finding = f"policy-foreign: {name} exists, and its labels are not those of a stack"
        return Check(title, CheckStatus.FAILED, finding, "delete it, so that the stack can make its own")
    if policy is None:
        finding = f"{OptInReason.POLICY_MISSING}: {name} does not exist yet"
        return Check(title, CheckStatus.WARNING, finding, "`pulumi up` makes it once the scheduler is available")
    if not policy.bindings:
        finding = f"{OptInReason.BINDING_MISSING}: {name} has no MutatingAdmissionPolicyBinding, so it does nothing"
        return Check(title, CheckStatus.FAILED, finding, "`pulumi up --refresh` makes it again")
    return Check(title, CheckStatus.OK, f"{name} and its binding exist")
