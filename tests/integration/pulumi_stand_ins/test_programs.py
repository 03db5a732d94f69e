"""The language host: programs that run, fail and are interrupted; previews without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pulumi_stand_ins.engine import Engine

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_preview_needs_no_cluster(offline: Engine) -> None:
    offline.write(
        {"name": "ns", "manifest": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made"}}},
        {
            "name": "thing",
            "manifest": {
                "apiVersion": "example.com/v1",
                "kind": "Thing",
                "metadata": {"name": "t", "namespace": {"$name": "ns"}},
                "spec": {"count": 1},
            },
        },
    )
    shown = offline.preview("--diff").output
    assert "4 to create" in shown
    assert 'namespace: "made"' in shown
    refused = offline.up(fails=True).output
    assert "configured Kubernetes cluster is unreachable: the kubeconfig" in refused
    assert "Traceback" not in refused


def test_bad_input_is_refused_by_property_without_asking_a_cluster(offline: Engine) -> None:
    annotations = {"pulumi.com/waitFor": "Available"}
    offline.write(
        {
            "name": "cm",
            "manifest": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "cm", "annotations": annotations},
                "data": {"count": 3},
            },
        }
    )
    shown = offline.preview(fails=True).output
    assert "data.count" in shown
    assert "must be a string, not int; put it in quotes" in shown
    assert "must start with condition= or jsonpath=" in shown


def test_a_run_error_shows_its_message_and_no_trace(offline: Engine) -> None:
    (offline.program / "__main__.py").write_text(
        "import pulumi\n"
        'print("what the program prints")\n'
        "raise pulumi.RunError(f\"settings: {pulumi.Config().require_secret('k') is not None}: no such plugin\")\n"
    )
    offline.run("config", "set", "--secret", "k", "hidden")
    shown = offline.preview(fails=True).output
    assert "settings: True: no such plugin" in shown
    assert "what the program prints" in shown
    assert "Traceback" not in shown


def test_an_exception_in_the_program_shows_its_trace_once(offline: Engine) -> None:
    (offline.program / "helper.py").write_text("def broken():\n    return {}['missing']\n")
    (offline.program / "__main__.py").write_text("from helper import broken\nbroken()\n")
    shown = offline.preview(fails=True).output
    assert shown.count("KeyError: 'missing'") == 1
    assert "helper.py" in shown
    assert "exited with non-zero exit code" not in shown


def test_a_kubeconfig_given_as_a_secret_stays_one_and_may_be_rotated(engine: Engine) -> None:
    content = Path(engine.env["KUBECONFIG"]).read_text()
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": engine.namespace}, "data": {}}
    engine.write({"name": "cm", "manifest": manifest}, kubeconfig={"$secret": content})
    engine.env["KUBECONFIG"] = "/does/not/exist"
    engine.up()
    exported = engine.export()
    assert "client-key-data" not in exported
    engine.write({"name": "cm", "manifest": manifest}, kubeconfig={"$secret": content + "\n# rotated\n"})
    assert engine.preview_summary() == {"update": 1, "same": 2}
