"""The inside of a container: volumes, environment, identity, credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.node_agent.helpers import MASKED, Api, RunningAgent, script, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.real_mounts, pytest.mark.slow]
CONFIG_VOLUME = {"name": "config", "configMap": {"name": "settings"}}
CONFIG_MOUNT = {"name": "config", "mountPath": "/etc/kubernetes"}


def config_map(api: Api, value: str) -> dict[str, object]:
    return {"metadata": {"name": "settings", "namespace": api.namespace}, "data": {"config.yaml": value}}


def test_pod_waits_for_a_missing_config_map(agent: RunningAgent, api: Api) -> None:
    api.pod(
        volumes=[CONFIG_VOLUME],
        main={"command": script("print(open('/etc/kubernetes/config.yaml').read())"), "volumeMounts": [CONFIG_MOUNT]},
    )
    failures = wait_for(lambda: api.events("FailedMount"), "the event")
    assert failures[0] == 'MountVolume.SetUp failed for volume "config" : configmap "settings" not found'
    # The Event may be written before the status.
    waits = wait_for(lambda: api.container().get("state", {}).get("waiting"), "the container to wait")
    assert waits["reason"] == "ContainerCreating"
    api.core.create_namespaced_config_map(api.namespace, config_map(api, "now"))
    assert api.terminated()["exitCode"] == 0
    assert agent.container_log(api.namespace, "p").strip() == "now"


def test_change_of_a_config_map_reaches_the_mounted_file_in_one_step(agent: RunningAgent, api: Api) -> None:
    # Two files that must always agree: a reader that opens the directory sees one version of both.
    reader = """
import os, time
seen = []
while len(seen) < 2:
    directory = os.open('/etc/kubernetes/..data', os.O_RDONLY)
    try:
        texts = {open(os.open(name, os.O_RDONLY, dir_fd=directory)).read() for name in ('a', 'b')}
    except FileNotFoundError:
        continue  # replaced between the two opens
    finally:
        os.close(directory)
    assert len(texts) == 1, texts
    if texts != set(seen[-1:]): seen += texts; print(*texts, flush=True)
print(open('/etc/kubernetes/a').read())
"""
    body = config_map(api, "")
    body["data"] = {"a": "1", "b": "1"}
    api.core.create_namespaced_config_map(api.namespace, body)
    api.pod(volumes=[CONFIG_VOLUME], main={"command": script(reader), "volumeMounts": [CONFIG_MOUNT]})
    wait_for(lambda: "1" in agent.container_log(api.namespace, "p"), "the first version")
    body["data"] = {"a": "2", "b": "2"}
    api.core.replace_namespaced_config_map("settings", api.namespace, body)
    assert api.terminated()["exitCode"] == 0
    assert agent.container_log(api.namespace, "p").split() == ["1", "2", "2"]


def test_secret_with_items_modes_and_sub_path(agent: RunningAgent, api: Api) -> None:
    api.core.create_namespaced_secret(
        api.namespace, {"metadata": {"name": "s"}, "stringData": {"token": "t0p", "other": "x"}}
    )
    look = """
import os, stat
print(sorted(n for n in os.listdir('/secret') if n[0] != '.'), open('/secret/in/token').read(),
      oct(stat.S_IMODE(os.stat('/secret/in/token').st_mode)), open('/one').read())
"""
    api.pod(
        volumes=[
            {
                "name": "s",
                "secret": {"secretName": "s", "items": [{"key": "token", "path": "in/token", "mode": 0o400}]},
            },
            {"name": "whole", "secret": {"secretName": "s"}},
            {"name": "none", "secret": {"secretName": "absent", "optional": True}},
        ],
        main={
            "command": script(look),
            "volumeMounts": [
                {"name": "s", "mountPath": "/secret"},
                {"name": "whole", "mountPath": "/one", "subPath": "other"},
                {"name": "none", "mountPath": "/nothing"},
            ],
        },
    )
    assert api.terminated()["exitCode"] == 0
    assert agent.container_log(api.namespace, "p").strip() == "['in'] t0p 0o400 x"


def test_environment_from_every_source(agent: RunningAgent, api: Api) -> None:
    api.core.create_namespaced_config_map(api.namespace, {"metadata": {"name": "c"}, "data": {"A": "a", "B": "b"}})
    api.core.create_namespaced_secret(api.namespace, {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    fields = {
        "NAME": "metadata.name", "UID": "metadata.uid", "LABEL": "metadata.labels['app']", "NODE": "spec.nodeName",
        "ACCOUNT": "spec.serviceAccountName", "IP": "status.podIP", "HOST": "status.hostIP",
    }  # fmt: skip
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    api.pod(
        main={
            "command": ["/bin/sh", "-c"],
            "args": [
                'echo "$A $B $SECRET $JOINED $CPU $NAME $LABEL $NODE $ACCOUNT $HOST $HOSTNAME" "$(NAME)" $$(NAME)'
            ],
            "envFrom": [{"configMapRef": {"name": "c"}}],
            "env": [
                *env,
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
                {"name": "JOINED", "value": "$(A)-$(SECRET)-$(NOPE)"},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            ],
            "resources": {"limits": {"cpu": "250m"}},
        }
    )
    assert api.terminated()["exitCode"] in (0, 127)  # the shell tries to run "NAME" for what stays $(NAME)
    first = agent.container_log(api.namespace, "p").splitlines()[-1]
    assert first.startswith("a b hidden a-hidden-$(NOPE) 250 p p real-0 default 127.0.0.1 p p")


def test_missing_key_for_a_variable_is_a_configuration_error(agent: RunningAgent, api: Api) -> None:
    source = {"configMapKeyRef": {"name": "absent", "key": "k"}}
    api.pod(main={"command": script("pass"), "env": [{"name": "X", "valueFrom": source}]})
    waits = wait_for(
        lambda: (waiting := api.container().get("state", {}).get("waiting", {})).get("message") and waiting, "the error"
    )
    assert waits == {"reason": "CreateContainerConfigError", "message": 'configmap "absent" not found'}
    api.core.create_namespaced_config_map(api.namespace, {"metadata": {"name": "absent"}, "data": {"k": "v"}})
    assert api.terminated()["exitCode"] == 0


def test_mounted_token_authenticates_to_the_api_server(agent: RunningAgent, api: Api) -> None:
    ask = """
import json, os, ssl, urllib.request
base = '/var/run/secrets/kubernetes.io/serviceaccount/'
url = 'https://%s:%s/apis/authentication.k8s.io/v1/selfsubjectreviews' % (
    os.environ['KUBERNETES_SERVICE_HOST'], os.environ['KUBERNETES_SERVICE_PORT'])
review = json.dumps({'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}).encode()
headers = {'Authorization': 'Bearer ' + open(base + 'token').read(), 'Content-Type': 'application/json'}
context = ssl.create_default_context(cafile=base + 'ca.crt')
answer = json.load(urllib.request.urlopen(urllib.request.Request(url, review, headers), context=context))
name = answer['status']['userInfo']['username']
open('/dev/termination-log', 'w').write(name + ' ' + open(base + 'namespace').read())
"""
    api.pod(main={"command": script(ask)})
    ended = api.terminated()
    assert ended["exitCode"] == 0, agent.container_log(api.namespace, "p")
    assert ended["message"] == f"system:serviceaccount:{api.namespace}:default {api.namespace}"


def test_restricted_container_is_what_its_security_context_says(agent: RunningAgent, api: Api) -> None:
    look = """
import errno, os
def writable(path):
    try: open(path, 'w').close(); os.unlink(path); return True
    except OSError as error: return errno.errorcode[error.errno]
status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines())
print(os.getuid(), os.getgid(), writable('/new'), writable('/etc/new'), writable('/usr/new'), writable('/tmp/new'),
      status['NoNewPrivs'].strip(), int(status['CapEff'], 16), int(status['CapBnd'], 16), os.getpid() < 10)
"""
    api.pod(
        securityContext={"runAsNonRoot": True, "runAsUser": 4321, "runAsGroup": 1234},
        volumes=[{"name": "tmp", "emptyDir": {}}],
        main={
            "command": script(look),
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            "securityContext": {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    )
    assert api.terminated()["exitCode"] == 0
    assert agent.container_log(api.namespace, "p").strip() == "4321 1234 EROFS EROFS EROFS True 1 0 0 True"


def test_writable_root_is_writable_without_touching_the_host(agent: RunningAgent, api: Api) -> None:
    mark = f"/{api.marker}"
    api.pod(
        main={
            "command": script(f"open('{mark}', 'w').write('x'); open('/tmp{mark}', 'w'); print(open('{mark}').read())")
        }
    )
    assert api.terminated()["exitCode"] == 0
    assert not Path(mark).exists()
    assert not Path("/tmp" + mark).exists()


def test_masked_host_paths_are_not_readable(agent: RunningAgent, api: Api) -> None:
    file, directory = MASKED
    assert file.stat().st_size
    assert any(directory.iterdir())
    look = f"import os; print(repr(open('{file}').read()), os.listdir('{directory}'))"
    api.pod(main={"command": script(look)})
    assert api.terminated()["exitCode"] == 0
    assert agent.container_log(api.namespace, "p").strip() == "'' []"


@pytest.mark.parametrize(
    ("image", "starts"),
    [
        pytest.param("localhost/test/python", False, id="root image"),
        pytest.param("localhost/test/numbered", True, id="numeric user"),
    ],
)
def test_run_as_non_root_needs_a_numeric_user(agent: RunningAgent, api: Api, image: str, starts: bool) -> None:
    api.pod(
        securityContext={"runAsNonRoot": True},
        main={"image": image, "command": script("import os; raise SystemExit(os.getuid() != 65532)")},
    )
    if starts:
        assert api.terminated()["exitCode"] == 0
        return
    waits = wait_for(lambda: api.container().get("state", {}).get("waiting", {}).get("message"), "the error")
    assert "container has runAsNonRoot and image will run as root" in waits
