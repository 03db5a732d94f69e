"""README.txt: what is in a bundle, what is not, and how it was redacted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from secondary_scheduler.cli.bundle.keeping import allowlist
from secondary_scheduler.cli.redaction import MASK

_HEAD = """\
A support archive of secondary-scheduler, namespace {namespace}, made {time} by secondary-scheduler {version}.

Look through it before you give it to anybody: names of your nodes, pods, images and namespaces, and addresses in the
configuration and the logs are in it.

Files
-----
versions.yaml          of the command line, Kubernetes and the images
secondaryschedulers/   the objects, with their status
deployments/, replicasets/, pods/, leases/   of the operator and the schedulers
configurations/        config.yaml of the schedulers' ConfigMaps, without comments
events.yaml            Events about these objects
logs/POD/CONTAINER.log          the end of the log; CONTAINER.previous.log: of the container that ran before
schedulers/POD/        what the leading schedulers serve: metrics, configz, readyz; statusz, flagz if switched on
snapshot.json          only with --snapshot: nodes, pods and more of the whole cluster, for `simulate`
problems.txt           what could not be read, and which right was missing

How it was redacted
-------------------
No Secret was read. Of objects only the fields below are kept; of a command line only flags that a scheduler or an
operator of ours knows; of environment variables their names. In all that is left, {mask} replaces
- the credentials of the kubeconfig,
- values of environment variables and of unknown flags, whatever stands under keys such as token and password, and user
  names and passwords in URLs, wherever the objects had them before they were reduced: as they are, and in base64,
- what looks like a secret: JSON web tokens, `Bearer ...`, `token=...`, private keys, AWS keys, OpenShift's tokens.
A secret of which none of this is true, such as a password in the middle of a sentence of a log, is not recognised.
"""


def readme(namespace: str, time: str, version: str, sizes: Mapping[str, int], cut: Iterable[str]) -> str:
    """Return the text; `sizes` are the bytes of the files, `cut` the names of those of which only a part is there."""
    lines = [_HEAD.format(namespace=namespace, time=time, version=version, mask=MASK)]
    lines += ["Sizes", "-----"]
    shortened = set(cut)
    for name, size in sorted(sizes.items()):
        lines.append(f"{size:>10} {name}{' (only the end)' if name in shortened else ''}")
    lines += ["", "Fields that are kept", "--------------------"]
    for kind, paths in allowlist().items():
        lines += [f"{kind}:", *(f"  {path}" for path in paths)]
    lines += ["ConfigMap, config.yaml: the fields of KubeSchedulerConfiguration and of the args of known plugins", ""]
    return "\n".join(lines)
