"""What the scheduler's and the operator's pods may send and receive, as NetworkPolicies."""

from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import urlsplit

from scheduler.catalog import PeaksArgs, TrimaranArgs
from scheduler.config import Configuration
from scheduler.operand.objects import LABEL_APP, SECURE_PORT

Json = dict[str, Any]

API_SERVER_PORTS = (443, 6443, 8443, 16443)
"""Where API servers of the usual distributions listen. A policy judges the port behind the Service `kubernetes`."""
_DNS_PORTS = (53, 5353)
"""The second is that of OpenShift's DNS pods, behind their Service."""
_SCHEME_PORTS = {"http": 80, "https": 443}
_LOAD_WATCHER_PORT = 2020
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Every namespace has it, with its name, and nobody can change it."""


def source_ports(configuration: Configuration) -> tuple[int, ...]:
    """Return the TCP ports of a configuration's metric sources and extenders, default addresses included; ascending."""
    addresses = [extender.url_prefix for extender in configuration.model.extenders]
    for profile in configuration.profiles:
        for args in profile.plugin_args.values():
            if isinstance(args, TrimaranArgs | PeaksArgs):
                addresses.append(args.source_address())
    return tuple(sorted({port for address in addresses if address for port in _ports(address)}))


def _ports(address: str) -> Iterator[int]:
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port
    except ValueError:
        return  # the configuration's own check says what is wrong with it
    yield port or _SCHEME_PORTS.get(parts.scheme, _LOAD_WATCHER_PORT)


def network_policy_spec(
    labels: dict[str, str],
    ingress: Collection[int],
    egress: Collection[int] | None,
    scrape_namespaces: Collection[str] = (),
) -> Json:
    """Return the spec of a NetworkPolicy for the pods with these labels.

    Args:
        labels: of the pods.
        ingress: TCP ports that may be reached; what is served there is authenticated, or says no more than health.
        egress: TCP ports that the pods may reach on any host, in addition to DNS and the API server's; None if that is
            not known, and egress is not limited. Hosts are not limited: API servers and many metric sources are no
            pods, and their addresses change.
        scrape_namespaces: those whose pods may reach the ports of `ingress`; without any, all sources. No policy can
            select a kubelet: Kubernetes lets that of the pod's own node through, whatever a policy says.
    """
    admitted: Json = {"ports": [_tcp(port) for port in sorted(set(ingress))]}
    if scrape_namespaces:
        named = {"key": _NAMESPACE_LABEL, "operator": "In", "values": sorted(set(scrape_namespaces))}
        admitted["from"] = [{"namespaceSelector": {"matchExpressions": [named]}}]
    policy: Json = {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress"],
        "ingress": [admitted],
    }
    if egress is None:
        return policy
    tcp = [_tcp(port) for port in sorted({*API_SERVER_PORTS, *egress})]
    return {**policy, "policyTypes": ["Ingress", "Egress"], "egress": [{"ports": _dns()}, {"ports": tcp}]}


def scheduler_network_policy_spec(
    operand: str, egress: Collection[int] | None, scrape_namespaces: Collection[str] = ()
) -> Json:
    """Return the spec of a scheduler's NetworkPolicy; `egress` and the rest as for `network_policy_spec`.

    Its replicas may reach each other: the next leader asks the one before for its history.
    """
    policy = network_policy_spec({LABEL_APP: operand}, [SECURE_PORT], egress, scrape_namespaces)
    replicas, ports = [{"podSelector": {"matchLabels": {LABEL_APP: operand}}}], [_tcp(SECURE_PORT)]
    if scrape_namespaces:
        policy["ingress"].append({"from": replicas, "ports": ports})
    if "egress" in policy:
        policy["egress"].append({"to": replicas, "ports": ports})
    return policy


def fenced_network_policy_spec(
    labels: dict[str, str], clients: Collection[str], port: int, egress: Collection[int]
) -> Json:
    """Return the spec of a NetworkPolicy for pods that only their clients may reach, and that reach no API server.

    Args:
        labels: of the pods.
        clients: values of the label `app` of pods in the same namespace.
        port: TCP port that these may reach; nobody else may reach any.
        egress: TCP ports that the pods may reach on any host, in addition to DNS.
    """
    peers = {"matchExpressions": [{"key": LABEL_APP, "operator": "In", "values": sorted(clients)}]}
    outside: list[Json] = [{"ports": _dns()}]
    if egress:
        outside.append({"ports": [_tcp(each) for each in sorted(set(egress))]})
    return {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": peers}], "ports": [_tcp(port)]}],
        "egress": outside,
    }


def _dns() -> list[Json]:
    return [{"protocol": protocol, "port": port} for port in _DNS_PORTS for protocol in ("UDP", "TCP")]


def _tcp(port: int) -> Json:
    return {"protocol": "TCP", "port": port}
