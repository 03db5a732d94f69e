"""An address is written into a stack file, and nothing else in it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.preflight.write import trusts_services_only, write_address

STACK = """# A comment at the top.
config:
  # Of the cluster.
  secondary-scheduler:cluster:
    clusterIdentifier: "quoted"   # beside it
  secondary-scheduler:metricProvider:
    type: Prometheus
    address: https://old.example   # where it was
    credentials:
      token: {secretKey: prometheusToken}
"""


def test_writing_an_address_changes_nothing_else_in_a_stack_file(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(STACK)
    file.chmod(0o640)
    assert write_address(file, "https://new.example")
    expected = STACK.replace("https://old.example", "https://new.example")
    # The comment keeps its column as far as the longer value lets it.
    assert file.read_text().replace(" ", "") == expected.replace(" ", "")
    assert file.stat().st_mode & 0o777 == 0o640
    assert not write_address(file, "https://new.example"), "it is there already"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("credentials", "address", "warns"),
    [
        ("serviceAccount: {}", "https://thanos-querier.apps.example.com", True),
        ("serviceAccount: {}", "https://thanos-querier.openshift-monitoring.svc:9091", False),
        ("serviceAccount: {caKey: ca.crt}", "https://thanos-querier.apps.example.com", False),
        ("token: {secretKey: prometheusToken}", "https://thanos-querier.apps.example.com", False),
    ],
)
def test_an_address_that_the_ca_of_services_does_not_cover_is_detected(
    tmp_path: Path, credentials: str, address: str, warns: bool
) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(STACK.replace("token: {secretKey: prometheusToken}", credentials))
    assert trusts_services_only(file, address) is warns


def test_a_stack_file_without_a_provider_gets_one_and_another_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text("config:\n  secondary-scheduler:schedulerName: s\n")
    write_address(file, "https://new.example")
    assert "metricProvider:\n    type: Prometheus\n    address: https://new.example" in file.read_text()
    for text in ("- a\n", "a: [\n"):
        file.write_text(text)
        with pytest.raises(CommandError):
            write_address(file, "https://new.example")
        assert file.read_text() == text
