"""When client-go would use a proxy, which is refused aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.kube.client import ClientConfig, ConfigError
from scheduler.kube.client.config import proxy_variable

PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("server", "exceptions", "variable"),
    [
        ("https://10.96.0.1:443", "", "HTTPS_PROXY"),
        ("https://10.96.0.1:443", "10.0.0.0/8", None),
        ("https://10.96.0.1:443", "other, 10.96.0.1", None),
        ("https://10.96.0.1:443", "10.96.0.1:443", None),
        ("https://10.96.0.1:443", "10.96.0.1:6443", "HTTPS_PROXY"),
        ("https://10.96.0.1:443", "10.96.0.10", "HTTPS_PROXY"),
        ("https://[fd00::1]:443", "fd00::/8", None),
        ("https://[fd00::1]:443", "[fd00::1]:443", None),
        ("https://api.cluster.example:6443", "*", None),
        ("https://api.cluster.example:6443", "cluster.example", None),
        ("https://api.cluster.example:6443", ".cluster.example", None),
        ("https://cluster.example:6443", ".cluster.example", "HTTPS_PROXY"),
        ("https://cluster.example:6443", "*.cluster.example", "HTTPS_PROXY"),
        ("https://notcluster.example", "cluster.example", "HTTPS_PROXY"),
        ("https://127.0.0.1:6443", "", None),
        ("https://localhost:6443", "", None),
        ("http://10.96.0.1", "", None),
    ],
)
def test_the_rules_of_go(server: str, exceptions: str, variable: str | None) -> None:
    assert proxy_variable(server, {**PROXY, "NO_PROXY": exceptions}) == variable


def test_lower_case_counts_too_and_an_empty_one_does_not() -> None:
    assert proxy_variable("https://10.0.0.1", {"https_proxy": "http://proxy"}) == "https_proxy"
    assert proxy_variable("https://10.0.0.1", {"HTTPS_PROXY": ""}) is None


def test_a_proxy_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://10.96.0.1:443'}}]\n"
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://user:canary@proxy:3128")
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(ConfigError, match=r"HTTPS_PROXY is set.*add 10\.96\.0\.1 to NO_PROXY") as refused:
        ClientConfig.load(kubeconfig)
    assert "canary" not in str(refused.value)
    monkeypatch.setenv("NO_PROXY", "10.96.0.0/12")
    assert ClientConfig.load(kubeconfig).server == "https://10.96.0.1:443"
