"""Files that a configuration names and the scheduler's pod does not have."""

from __future__ import annotations

import pytest

from scheduler.config import CUSTOM, OURS, Configuration, ConfigurationError, Flavour, load_configuration
from scheduler.config.files import _MOUNTED_OVER
from scheduler.operand import METRIC_CREDENTIALS_DIRECTORY, Operand, deployment_spec

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CREDENTIALS = f"{METRIC_CREDENTIALS_DIRECTORY}/ca.crt"


def load(text: str, flavour: Flavour = OURS, *, into_cluster: bool = True) -> Configuration:
    return load_configuration(
        HEAD + text, source="f.yaml", flavour=flavour, into_cluster=into_cluster, allow_default_scheduler_name=True
    )


def refused(text: str, flavour: Flavour = OURS) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(text, flavour)
    return [str(problem) for problem in raised.value.problems]


def warned(text: str, flavour: Flavour = OURS) -> list[str]:
    return [str(warning) for warning in load(text, flavour).warnings if "mount" in str(warning)]


def extender(file: str, field: str = "caFile") -> str:
    tls = f"{{{field}: {file}}}"
    return f"extenders:\n- urlPrefix: https://a.example\n  filterVerb: filter\n  tlsConfig: {tls}\n"


def load_of(file: str) -> str:
    args = f"{{load: {{caFile: {file}}}}}"
    return f"profiles:\n- schedulerName: s\n  pluginConfig:\n  - name: SecondarySchedulerOptions\n    args: {args}\n"


@pytest.mark.parametrize(
    "path", ["/etc/kubernetes/scheduler.conf", "/home/me/.kube/config", "scheduler.conf", "/tmp/x", "/etc/ssl/x"]
)
@pytest.mark.parametrize("flavour", [OURS, CUSTOM], ids=["ours", "custom"])
def test_a_kubeconfig_that_no_mount_provides_is_refused_with_its_place(path: str, flavour: Flavour) -> None:
    assert refused(f"clientConnection: {{kubeconfig: {path}}}\n", flavour) == [
        f'f.yaml:3:32: clientConnection.kubeconfig: no mount of the scheduler\'s pod provides "{path}"; '
        "remove it: the pod uses its ServiceAccount"
    ]


def test_who_runs_the_scheduler_elsewhere_may_name_any_file() -> None:
    text = "clientConnection: {kubeconfig: /home/me/.kube/config}\n" + extender("/home/me/ca.crt")
    configuration = load(text, into_cluster=False)
    assert configuration.model.client_connection.kubeconfig == "/home/me/.kube/config"


@pytest.mark.parametrize("field", ["caFile", "certFile", "keyFile"])
def test_an_extenders_files_need_a_mount(field: str) -> None:
    (line,) = refused(extender("/certs/tls.pem", field))
    assert f'extenders[0].tlsConfig.{field}: no mount of the scheduler\'s pod provides "/certs/tls.pem"' in line
    assert line.startswith("f.yaml:6:")
    assert METRIC_CREDENTIALS_DIRECTORY in line


def test_a_metric_sources_authority_needs_a_mount() -> None:
    (line,) = refused(load_of("/certs/ca.crt"))
    assert (
        'profiles[0].pluginConfig[0].args.load.caFile: no mount of the scheduler\'s pod provides "/certs/ca.crt"'
        in line
    )


@pytest.mark.parametrize(
    "file",
    [
        CREDENTIALS,
        "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
    ],
)
def test_mounted_files_and_the_images_authorities_are_accepted(file: str) -> None:
    assert warned(extender(file)) == warned(load_of(file)) == []


@pytest.mark.parametrize("file", [f"{METRIC_CREDENTIALS_DIRECTORY}/../x", "/etc/kubernetes/pki/ca.crt"])
def test_what_only_looks_mounted_is_refused(file: str) -> None:
    assert len(refused(extender(file))) == 1


def test_a_custom_image_may_bring_a_file_along_where_nothing_is_mounted_over_it() -> None:
    (line,) = warned(extender("/opt/ours/ca.crt"), CUSTOM)
    assert 'provides "/opt/ours/ca.crt", so the image has to have it' in line
    assert len(refused(extender("/etc/kubernetes/ca.crt"), CUSTOM)) == 1


def test_every_mount_of_the_scheduler_is_known() -> None:
    operand = Operand("s", "n", "i", "c", serving_cert_secret="t", metric_secret="m")
    (container,) = deployment_spec(operand)["template"]["spec"]["containers"]
    for mount in container["volumeMounts"]:
        assert f"{mount['mountPath']}/".startswith(_MOUNTED_OVER), mount
