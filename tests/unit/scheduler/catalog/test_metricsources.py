"""Addresses of metric sources, and where credentials for them may go."""

from __future__ import annotations

import pytest

from scheduler.catalog import SERVICE_ACCOUNT_TOKEN, Credential, CredentialRules, address_problem, same_address

MOUNTED = "/var/run/secrets/secondary-scheduler/metrics/token"
ACCOUNT_CA = "/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt"
THANOS = "https://thanos-querier.openshift-monitoring.svc:9091"
PERMITTED = CredentialRules(address=THANOS, service_account_token=SERVICE_ACCOUNT_TOKEN)


@pytest.mark.parametrize(
    "address",
    [
        "http://prometheus-k8s:9090",
        "https://prometheus.example/prometheus/",
        "http://127.0.0.1:9090",
        "http://[fd00::7]:9090",
        "https://a_b.example:65535/x/%20y",
    ],
)
def test_an_address_of_a_source(address: str) -> None:
    assert address_problem(address) is None


@pytest.mark.parametrize(
    "address",
    [
        "http://[bad",
        "http://[fd00::zz]:9090",
        "http://",
        "http://:9090",
        "http://host:99999",
        "http://host:0",
        "http://host:port",
        "http://a b",
        "http://127.0.0.1\\foreign.example",
        "http://host\n/",
        "ftp://host",
        "prometheus:9090",
        "http://höst",
        "http://host/" + "\x00",
    ],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    problem = address_problem(address)
    assert problem is not None
    assert "is not a URL" in problem
    assert problem.isprintable()


@pytest.mark.parametrize(
    "address",
    [
        "https://user:canary@host:9090",
        "https://canary@host",
        "user:canary@host",
        "https://host/?token=canary",
        "https://host/#canary",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_shown(address: str) -> None:
    problem = address_problem(address)
    assert problem is not None
    assert "must not hold" in problem
    assert "canary" not in problem


@pytest.mark.parametrize(
    ("rules", "credential", "field"),
    [
        (CredentialRules(), Credential("https://p", token_file=MOUNTED), None),
        (CredentialRules(), Credential("http://p"), None),
        (CredentialRules(), Credential("http://127.0.0.1:9090", token_file=MOUNTED), None),
        (CredentialRules(), Credential("http://[::1]:9090", literal=True), None),
        (CredentialRules(), Credential("http://p", token_file=MOUNTED), "address"),
        (CredentialRules(), Credential("http://p", literal=True), "address"),
        (CredentialRules(), Credential("https://p", literal=True), None),
        (CredentialRules(), Credential("https://p", literal=True, verify_tls=False), "insecureSkipVerify"),
        (CredentialRules(), Credential("https://p", token_file=MOUNTED, verify_tls=False), "insecureSkipVerify"),
        (CredentialRules(allow_insecure=True), Credential("http://p", token_file=MOUNTED), None),
        (CredentialRules(allow_insecure=True), Credential("https://p", literal=True, verify_tls=False), None),
        (CredentialRules(), Credential("https://p", token_file="/etc/passwd"), "tokenFile"),
        (CredentialRules(allow_insecure=True), Credential("https://p", token_file="/etc/passwd"), "tokenFile"),
        (CredentialRules(), Credential("https://p", token_file=f"{MOUNTED}/../../../token"), "tokenFile"),
        (CredentialRules(), Credential("https://p", token_file=MOUNTED.replace("metrics", "metrics2")), "tokenFile"),
        (CredentialRules(), Credential("https://p", token_file="token"), "tokenFile"),
        (CredentialRules(), Credential("https://p", token_file=SERVICE_ACCOUNT_TOKEN), "tokenFile"),
        (CredentialRules(address=THANOS), Credential(THANOS, token_file=SERVICE_ACCOUNT_TOKEN), "tokenFile"),
        (CredentialRules(address=THANOS), Credential(f"{THANOS}/", token_file=MOUNTED), None),
        (CredentialRules(address=THANOS), Credential("https://foreign", token_file=MOUNTED), "address"),
        (CredentialRules(address=THANOS), Credential("https://foreign", literal=True), None),
        (PERMITTED, Credential(THANOS, token_file=SERVICE_ACCOUNT_TOKEN, ca_file=ACCOUNT_CA), None),
        (PERMITTED, Credential("https://foreign", token_file=SERVICE_ACCOUNT_TOKEN), "address"),
        (PERMITTED, Credential(f"{THANOS}/tenant", token_file=SERVICE_ACCOUNT_TOKEN), "address"),
        (PERMITTED, Credential(THANOS, token_file=SERVICE_ACCOUNT_TOKEN, verify_tls=False), "insecureSkipVerify"),
        (PERMITTED, Credential(THANOS, token_file=SERVICE_ACCOUNT_TOKEN, ca_file="/etc/kubernetes/ca"), "caFile"),
    ],
)
def test_where_a_credential_goes(rules: CredentialRules, credential: Credential, field: str | None) -> None:
    refusal = rules.refusal(credential)
    assert (refusal.field if refusal else None) == field


@pytest.mark.parametrize("address", ["http://127.0.0.1:9091", "http://p"])
def test_nothing_permits_the_service_accounts_token_over_http(address: str) -> None:
    rules = CredentialRules(address=address, service_account_token=SERVICE_ACCOUNT_TOKEN, allow_insecure=True)
    refusal = rules.refusal(Credential(address, token_file=SERVICE_ACCOUNT_TOKEN))
    assert refusal is not None
    assert "over https only" in refusal.message


def test_addresses_are_compared_by_server_and_path() -> None:
    assert same_address("https://A.example", "https://a.example:443/")
    assert not same_address("https://a.example", "http://a.example")
    assert not same_address("https://a.example/x", "https://a.example/y")
