"""What the cluster requires of the scheduler: a matching Kubernetes version, and OpenShift's TLS profile."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scheduler.config import ClusterVersions, Flavour, incompatibilities
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.model import Json, Observed
from secondary_scheduler.operator.reconcile.revision import read_run

_MIN_VERSION = "--tls-min-version="
_CIPHERS = "--tls-cipher-suites="

_MODERN = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_INTERMEDIATE = (
    *_MODERN,
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
)
_OLD = (
    *_INTERMEDIATE,
    "ECDHE-ECDSA-AES128-SHA256",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA256",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
)
_PROFILES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Old": ("VersionTLS10", _OLD),
        "Intermediate": ("VersionTLS12", _INTERMEDIATE),
        "Modern": ("VersionTLS13", _MODERN),
    }
)
"""OpenShift's profiles as its API defines them, without the suites that Go does not have."""
_VERSIONS = frozenset({"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"})

_IANA: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in _MODERN},
        "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-AES128-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "ECDHE-RSA-AES128-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "ECDHE-ECDSA-AES128-SHA": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "ECDHE-ECDSA-AES256-SHA": "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "AES128-GCM-SHA256": "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "AES256-GCM-SHA384": "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "AES128-SHA256": "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "AES128-SHA": "TLS_RSA_WITH_AES_128_CBC_SHA",
        "AES256-SHA": "TLS_RSA_WITH_AES_256_CBC_SHA",
        "DES-CBC3-SHA": "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    }
)
"""OpenSSL's names, which OpenShift uses, and those that the flags take."""


def kubernetes_mismatch(image: str, flavour: Flavour, minor: int | None) -> str:
    """A warning about an image that is built from another Kubernetes than the cluster's; empty where there is none.

    Kubernetes supports schedulers of the API server's minor version and of the one before. Ours is made for more of
    them: what it is tested with is in a table.
    """
    if minor is None or not image or flavour.family == "custom":
        return ""
    if flavour.is_ours:
        problems = incompatibilities(ClusterVersions(kubernetes=f"1.{minor}"), None, image, flavour)
        return "; ".join(problem.message for problem in problems)
    if minor - flavour.kubernetes in (0, 1):
        return ""
    return (
        f"image {image} is built for Kubernetes 1.{flavour.kubernetes}, and this cluster runs 1.{minor}: supported "
        "are the cluster's minor version and the one before"
    )


def tls_arguments(observed: Observed, extra_args: Sequence[str]) -> tuple[str, ...]:
    """Flags for the TLS profile of OpenShift's `APIServer/cluster`; none where that kind does not exist.

    `extra_args` come from the spec. A profile that is not named is Intermediate, as everywhere in OpenShift. While the
    object cannot be read, the flags stay as they are.
    """
    if "APIServer" in observed.unreadable:
        live = read_run(observed.get("Deployment", observed.names.operand), names.ANNOTATION_REVISION)
        args, own = (live.revision.args if live else ()), len(extra_args)
        if own and args[-own:] == tuple(extra_args):
            args = args[:-own]
        return tuple(arg for arg in args if arg.startswith((_MIN_VERSION, _CIPHERS)))
    server = observed.get("APIServer", "cluster")
    if server is None:
        return ()
    profile: Json = (server.get("spec") or {}).get("tlsSecurityProfile") or {}
    version, suites = _PROFILES.get(str(profile.get("type")), _PROFILES["Intermediate"])
    if profile.get("type") == "Custom":
        custom = profile.get("custom") or {}
        version, suites = str(custom.get("minTLSVersion") or version), tuple(custom.get("ciphers") or ())
    return _flags(version if version in _VERSIONS else "VersionTLS12", suites)


def _flags(version: str, suites: Sequence[str]) -> tuple[str, ...]:
    known = [_IANA[name] for name in suites if name in _IANA]
    # Without one that is known, what remains is the server's own choice.
    return (f"{_MIN_VERSION}{version}", *([f"{_CIPHERS}{','.join(known)}"] if known else []))
