from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
from pulumi import _types
from pulumi.runtime import resource
from pulumi.runtime.proto import source_pb2

CANARY_TOKEN = "canary-token-31415926"
KUBECONFIG_TEXT = """\
apiVersion: v1
kind: Config
current-context: local
clusters: [{name: local, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: local, user: {}}]
contexts: [{name: local, context: {cluster: local, user: local}}]
"""


@pytest.fixture(scope="session", autouse=True)
def outputs_as_text_are_errors() -> Iterator[None]:
    """An Output that is formatted as text raises in the SDK, which else writes a warning into names and messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PULUMI_ERROR_OUTPUT_STRING", "true")
        yield


@pytest.fixture(scope="session", autouse=True)
def types_are_resolved_once() -> Iterator[None]:
    """The SDK resolves the annotations of a type each time that it reads a value: more than half the time of a program
    that a test runs a thousand times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_types, "_types_from_py_properties", functools.cache(_types._types_from_py_properties))
        yield


@pytest.fixture(scope="session", autouse=True)
def registrations_keep_no_stack_trace() -> Iterator[None]:
    """The SDK reads the source of each caller of each resource, for the engine's error messages: a tenth of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "_get_stack_trace", source_pb2.StackTrace)
        yield


@pytest.fixture(scope="module")
def local_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The environment that stack `local` refers to, as `secondary-scheduler cluster env` sets it."""
    directory = tmp_path_factory.mktemp("environment")
    token, authority = directory / "token", directory / "ca.crt"
    token.write_text(CANARY_TOKEN + "\n")
    authority.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECONDARY_SCHEDULER_PROMETHEUS_URL", "https://127.0.0.1:9090")
        patch.setenv("SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE", str(token))
        patch.setenv("SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE", str(authority))
        (directory / "kubeconfig").write_text(KUBECONFIG_TEXT)
        patch.setenv("KUBECONFIG", str(directory / "kubeconfig"))
        yield
