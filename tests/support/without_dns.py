"""Runs another scheduler's binary where there is no cluster DNS, as on the local cluster's nodes.

    python without_dns.py BINARY --config=FILE ...

A Service's name in an URL of the configuration becomes the address of the pod whose label `app` is that name; pods are
read with the pod's own ServiceAccount. Standard library only: it runs as the process of a pod.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import time
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVICE = re.compile(r"http://([a-z][-a-z0-9]*):")
RESOLVED = Path("/tmp/resolved.yaml")  # the pod's own


def address_of(name: str) -> str:
    """The address of a ready pod of a Service; waits for one."""
    server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    namespace = (ACCOUNT / "namespace").read_text()
    url = f"{server}/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}"
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    while True:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=trust) as answer:
            pods = json.load(answer)["items"]
        for pod in pods:
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
            if conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
                return str(pod["status"]["podIP"])
        time.sleep(0.2)


def main() -> None:
    binary, *arguments = sys.argv[1:]
    for index, argument in enumerate(arguments):
        if argument.startswith("--config="):
            text = Path(argument.partition("=")[2]).read_text()
            RESOLVED.write_text(SERVICE.sub(lambda match: f"http://{address_of(match[1])}:", text))
            arguments[index] = f"--config={RESOLVED}"
    os.execv(binary, [binary, *arguments])


if __name__ == "__main__":
    main()
