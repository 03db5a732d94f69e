"""Writing kubeconfig files."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from devcluster.pki import KeyPair, write_private


def document(cluster: str, server: str, authority: bytes, user: str, pair: KeyPair) -> dict[str, Any]:
    """A kubeconfig with one context, certificates inside: it stays valid when copied elsewhere."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _encode(authority)}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encode(pair.certificate),
                    "client-key-data": _encode(pair.key),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
        "preferences": {},
    }


def write(path: Path, cluster: str, server: str, authority: bytes, user: str, pair: KeyPair) -> Path:
    """Write a kubeconfig readable by its owner only; returns the path."""
    text = yaml.safe_dump(document(cluster, server, authority, user, pair), sort_keys=False)
    return write_private(path, text.encode())


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
