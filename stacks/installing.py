"""Settings of how operator and scheduler are installed."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from components.settings import Image, SettingsModel, Subdomain, absent_if_empty

InstallMode = Literal["manifests", "direct", "none", "olm", "catalog"]
OperatorFlavour = Literal["ours", "upstream"]

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?):[0-9]{1,5}")
_PAGE = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[\w.~!$&'()*+,;=:@%/-]*)?", re.ASCII)
_PACKAGES: dict[OperatorFlavour, str] = {
    "ours": "secondary-scheduler-operator",
    "upstream": "openshift-secondary-scheduler-operator",
}
_USUAL_SOURCE = "redhat-operators"
_MARKETPLACE = "openshift-marketplace"


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError("is not an address; write HOST:PORT of the registry, without a scheme")
    return value


def _page(value: str) -> str:
    if not _PAGE.fullmatch(value):
        raise ValueError("is not the address of a page; write https://HOST/PATH, without a query or fragment")
    return value


class Catalog(SettingsModel):
    """A custom catalogue for OLM: an index image that OLM runs, or the address of a running registry."""

    image: Image | None = None
    address: Annotated[str, AfterValidator(_address)] | None = None

    @model_validator(mode="after")
    def _exactly_one_origin(self) -> Self:
        if (self.image is None) == (self.address is None):
            raise ValueError("must hold either image or address")
        return self


class OperatorSource(SettingsModel):
    """Which operator is used, and where OLM finds it.

    Attributes:
        flavour: upstream's operator needs other gates and rights, and does not know the fields that ours added to the
            resource. Default: upstream's with olm, else ours.
        package: its name in the catalogue, if not the usual one.
        channel: of the package.
        source, source_namespace: the CatalogSource, for olm.
        starting_csv: first version to install; default: the channel's newest.
        approval: Manual: `pulumi up` waits, and says what a person has to approve.
        catalog: the catalogue for install mode catalog.
        ready_seconds: how long each step of OLM may take before the update fails; default: some minutes, and an hour
            for an approval.
    """

    flavour: OperatorFlavour | None = None
    package: Subdomain | None = None
    channel: str = Field("stable", min_length=1)
    source: Subdomain | None = None
    source_namespace: Subdomain | None = None
    starting_csv: Subdomain | None = Field(None, alias="startingCSV")
    approval: Literal["Automatic", "Manual"] = "Automatic"
    catalog: Annotated[Catalog | None, BeforeValidator(absent_if_empty)] = None
    ready_seconds: int | None = Field(None, ge=10, le=86400)

    def is_upstream(self, mode: InstallMode) -> bool:
        """Whether upstream's operator is meant."""
        return (self.flavour or ("upstream" if mode == "olm" else "ours")) == "upstream"

    def package_in(self, mode: InstallMode) -> str:
        """The package that is subscribed to."""
        return self.package or _PACKAGES["upstream" if self.is_upstream(mode) else "ours"]

    @property
    def usual_source(self) -> tuple[str, str]:
        """Name and namespace of the CatalogSource, for olm."""
        return self.source or _USUAL_SOURCE, self.source_namespace or _MARKETPLACE


class OptionalObjects(SettingsModel):
    """Optional objects around the scheduler.

    Attributes:
        priority_class: a PriorityClass, so that ordinary pods do not preempt the scheduler's.
        network_policy: allow traffic to the scheduler's authenticated port only.
        flow_schemas: keep Lease and bindings alive when the API server is under load.
        admission_policies: limit what a SecondaryScheduler may run, and what our operator may bind; they need
            Kubernetes 1.30.
        service_monitor, prometheus_rule: scraping and alerts through the Prometheus operator, whose CRDs must exist;
            default: on OpenShift only.
        grafana_dashboard: a ConfigMap with the Grafana dashboard, for the sidecar of Grafana's Helm chart.
    """

    priority_class: bool = True
    network_policy: bool = True
    flow_schemas: bool = True
    admission_policies: bool = True
    service_monitor: bool | None = None
    prometheus_rule: bool | None = None
    grafana_dashboard: bool = False


class AlertSettings(SettingsModel):
    """What the alerts say.

    Attributes:
        runbook_url: address of the page with the runbooks, docs/runbooks.md, where you publish it: alerts link to its
            sections.
    """

    runbook_url: Annotated[str, AfterValidator(_page)] | None = None
