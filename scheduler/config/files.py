"""Files that a configuration names, and which of them a scheduler's pod has.

A pod of an operator, or of the Pulumi program, mounts its configuration, the metric source's credentials and its
ServiceAccount, and nothing else: see `scheduler/operand/deployment.py`. A scheduler that cannot read a file that its
configuration names does not start.
"""

import posixpath
from collections.abc import Iterator, Sequence

from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY, OPTIONS, SERVICE_ACCOUNT_DIRECTORY, Loc
from scheduler.config.document import ConfigurationDocument
from scheduler.config.expand import EffectiveProfile
from scheduler.config.flavours import Flavour
from scheduler.config.model import KubeSchedulerConfiguration
from scheduler.config.problems import Problem

_MOUNTED_FILES = frozenset(f"{SERVICE_ACCOUNT_DIRECTORY}/{name}" for name in ("token", "ca.crt", "service-ca.crt"))
_TRUST_STORES = ("/etc/ssl/", "/etc/pki/", "/usr/share/", "/usr/local/share/")
"""Where images have certificate authorities. Which ones, only the image knows."""
_MOUNTED_OVER = ("/etc/kubernetes/", "/tmp/", "/certs-dir/", "/var/run/secrets/")  # noqa: S108 - the pod's own
"""What an image has here is hidden by a mount."""


def check_files(
    document: ConfigurationDocument,
    model: KubeSchedulerConfiguration,
    profiles: Sequence[EffectiveProfile],
    flavour: Flavour,
) -> Iterator[Problem]:
    """Yield the files that the scheduler's pod does not have; of an image that somebody else made, files that only the
    image may have are warnings."""
    kubeconfig = model.client_connection.kubeconfig
    if kubeconfig and not _is_mounted(kubeconfig):
        yield document.problem(
            ("clientConnection", "kubeconfig"),
            _absent(kubeconfig),
            hint="remove it: the pod uses its ServiceAccount",
        )
    for loc, file in _certificates(model, profiles):
        if not file or _is_mounted(file) or file.startswith(_TRUST_STORES):
            continue
        may_be = not flavour.is_ours and flavour.release is None
        may_be = may_be and posixpath.isabs(file) and not file.startswith(_MOUNTED_OVER)
        yield document.problem(
            loc,
            f"{_absent(file)}, so the image has to have it" if may_be else _absent(file),
            hint=f"put it into the Secret with the metric source's credentials, below {METRIC_CREDENTIALS_DIRECTORY}, "
            "or give its content where a field takes that (caData, certData)",
            severity="warning" if may_be else "error",
        )


def _absent(file: str) -> str:
    return f'no mount of the scheduler\'s pod provides "{file}"'


def _is_mounted(file: str) -> bool:
    if posixpath.normpath(file) != file:
        return False
    return file in _MOUNTED_FILES or file.startswith(f"{METRIC_CREDENTIALS_DIRECTORY}/")


def _certificates(
    model: KubeSchedulerConfiguration, profiles: Sequence[EffectiveProfile]
) -> Iterator[tuple[Loc, str | None]]:
    for index, extender in enumerate(model.extenders):
        tls = extender.tls_config
        if tls is not None:
            at: Loc = ("extenders", index, "tlsConfig")
            yield (*at, "certFile"), tls.cert_file
            yield (*at, "keyFile"), tls.key_file
            yield (*at, "caFile"), tls.ca_file
    for index, (written, profile) in enumerate(zip(model.profiles, profiles, strict=False)):
        for place, entry in enumerate(written.plugin_config):
            if entry.name == OPTIONS and profile.options.load.ca_file:
                # A tokenFile is judged with what the scheduler may do with it.
                loc: Loc = ("profiles", index, "pluginConfig", place, "args", "load", "caFile")
                yield loc, profile.options.load.ca_file
