"""The image's command `load-watcher`: its options, the source of its configuration, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from secondary_scheduler.loadwatcher import app
from secondary_scheduler.loadwatcher.__main__ import main
from secondary_scheduler.loadwatcher.app import Listen, WatcherError

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: load-watcher
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 1}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "https://prometheus:9090"}}
  - name: SecondarySchedulerOptions
    args: {load: {tokenFile: FILE, window: 5m}}
"""
METRICS_SERVER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: load-watcher
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 1}]}}
"""
TOKEN_FILE = "/var/run/secrets/secondary-scheduler/metrics/token"


class Recorder:
    """Keeps what would be served, and for whom."""

    served: list[tuple[Any, ...]]
    failure: WatcherError | None = None

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    async def run(self, listen: Listen, _: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.served.append((*self._arguments, listen))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    recorder = type("Served", (Recorder,), {"served": []})
    monkeypatch.setattr(app, "WatcherService", recorder)
    return recorder


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIGURATION.replace("FILE", TOKEN_FILE))
    return file


def test_it_serves_the_source_of_its_configuration(recorder: type[Recorder], config: Path) -> None:
    assert (
        main([f"--config={config}", "--listen=10.0.0.1:2020", "--serve-unauthenticated", "--max-connections=50"]) == 0
    )
    ((key, settings, limits, listen),) = recorder.served
    assert limits == (50, 32)
    assert key.startswith("Prometheus:")
    assert (settings.address, settings.window, str(settings.token_file)) == (
        "https://prometheus:9090", "5m", TOKEN_FILE,
    )  # fmt: skip
    assert listen == Listen("10.0.0.1", 2020)


def test_without_a_word_about_it_only_this_machine_is_served(
    recorder: type[Recorder], config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--config={config}"]) == 0
    assert recorder.served[0][-1] == Listen("127.0.0.1", 2020)
    for address in ("0.0.0.0:2020", ":2020", "[fd00::1]:2020"):
        with pytest.raises(SystemExit) as end:
            main([f"--config={config}", f"--listen={address}"])
        assert end.value.code == 2
        assert "--serve-unauthenticated, behind a NetworkPolicy" in capsys.readouterr().err
    assert len(recorder.served) == 1


def test_whoever_writes_the_file_obtains_no_token_of_another_address(
    recorder: type[Recorder], config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--config={config}", "--metric-credentials-address=https://elsewhere:9090"]) == 4
    assert "the token is for https://elsewhere:9090" in capsys.readouterr().err
    config.write_text(CONFIGURATION.replace("FILE", "/etc/shadow"))
    assert main([f"--config={config}"]) == 4
    assert "is not below /var/run/secrets/secondary-scheduler/metrics" in capsys.readouterr().err
    config.write_text(CONFIGURATION.replace("FILE", TOKEN_FILE).replace("https", "http"))
    assert main([f"--config={config}"]) == 4
    assert main([f"--config={config}", "--allow-insecure-metric-credentials"]) == 0
    assert len(recorder.served) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"kind: [", "config.yaml"),
        (b"\xff\xfe", "utf-8"),
        (b"#" * (1 << 20) + b"\n", "larger than 1 MiB"),
        (b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", "exactly one source"),
        (METRICS_SERVER.encode(), "cannot read the metrics server"),
    ],
    ids=["no YAML", "no text", "too large", "no source", "metrics server"],
)
def test_a_file_that_it_cannot_use_ends_it_with_one_line(
    recorder: type[Recorder], config: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_bytes(content)
    assert main([f"--config={config}"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert recorder.served == []


def test_a_file_that_is_not_there_and_an_address_that_is_taken_are_named(
    recorder: type[Recorder], config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"--config={tmp_path / 'no'}"]) == 4
    assert f"--config {tmp_path / 'no'}: No such file" in capsys.readouterr().err
    recorder.failure = WatcherError("--listen 127.0.0.1:2020: Address already in use")
    assert main([f"--config={config}"]) == 1
    assert "already in use" in capsys.readouterr().err


def test_wrong_options_are_reported_in_one_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argument, message in (
        ("--listen=here", "is not an address and a port"),
        ("--metric-credentials-address=prometheus", "is not a URL"),
        ("--metric-service-account-token=/t", "needs --metric-credentials-address"),
    ):
        with pytest.raises(SystemExit) as end:
            main([f"--config={config}", argument])
        assert end.value.code == 2
        assert message in capsys.readouterr().err


def test_it_needs_nothing_of_the_command_line() -> None:
    code = (
        "import sys, secondary_scheduler.loadwatcher.app; "
        "print({'typer', 'kubernetes', 'pulumi', 'secondary_scheduler.cli'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "set()"


def test_names_of_series_that_it_says_control_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    app._say("2 series are left out, such as \x1b[2J\x9b31m\u202enode")
    assert capsys.readouterr().err == "2 series are left out, such as �[2J�31m�node\n"
