"""A real Prometheus that scrapes one target over TLS with a ServiceAccount's token, as kube-prometheus does."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import yaml

from devcluster import ports
from devcluster.progress import SilentReporter
from devcluster.toolchain.binaries import ensure
from tests.support.waiting import PATIENCE_SECONDS

_PATIENCE = PATIENCE_SECONDS


class Scraper:
    """Asks a running Prometheus."""

    def __init__(self, port: int, log: Path) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1"
        self._log = log

    def _ask(self, path: str) -> Any:
        with urlopen(f"{self._base}/{path}", timeout=5) as answer:
            return json.load(answer)["data"]

    def value(self, expression: str) -> float | None:
        """The first value of an instant query; None without any."""
        result = self._ask(f"query?query={quote(expression)}")["result"]
        return float(result[0]["value"][1]) if result else None

    def last_error(self) -> str:
        """What the newest scrape of the only target says; "" for a good one."""
        (target,) = self._ask("targets?state=active")["activeTargets"]
        return str(target["lastError"])

    def firing(self) -> set[str]:
        """Names of the alerts that fire."""
        return {alert["labels"]["alertname"] for alert in self._ask("alerts")["alerts"] if alert["state"] == "firing"}

    def wait_for(self, expression: str, seconds: float = _PATIENCE) -> float:
        """The value of an expression as soon as there is one."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                if (value := self.value(expression)) is not None:
                    return value
            if time.monotonic() > deadline:
                reason = self._log.read_text()[-500:]
                with contextlib.suppress(OSError):
                    reason = self.last_error()
                raise AssertionError(f"no {expression} within {seconds:g} s: {reason}")
            time.sleep(0.1)


@contextlib.contextmanager
def scraping(
    directory: Path,
    target: str,
    token: str,
    *,
    labels: Mapping[str, str] | None = None,
    rules: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Scraper]:
    """Run Prometheus in an empty directory: it scrapes `https://TARGET/metrics` each second with the token.

    `labels` are the target's; `rules` are groups of a rule file.
    """
    (directory / "token").write_text(token)
    (directory / "rules.yaml").write_text(yaml.safe_dump({"groups": [dict(group) for group in rules]}))
    job = {
        "job_name": "metrics",
        "scheme": "https",
        "authorization": {"credentials_file": str(directory / "token")},
        "tls_config": {"insecure_skip_verify": True},  # as for a self-signed certificate in the ServiceMonitor
        "static_configs": [{"targets": [target], "labels": dict(labels or {})}],
    }
    every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    configuration = {"global": every, "rule_files": [str(directory / "rules.yaml")], "scrape_configs": [job]}
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    binary = ensure(["prometheus"], SilentReporter())["prometheus"]
    port = ports.allocate(["prometheus"], {})["prometheus"]
    command = [
        str(binary),
        f"--config.file={directory / 'prometheus.yaml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = directory / "prometheus.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield Scraper(port, log)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
