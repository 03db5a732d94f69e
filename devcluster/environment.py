"""The environment in which plain `kubectl` and plain `pulumi` work on a cluster."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from devcluster.layout import Layout
from devcluster.pulumi_stand_ins import BIN, KUBERNETES_PROVIDER, LANGUAGE_HOST
from devcluster.state import foreign_path

# The state of a throw-away cluster is encrypted like any other; its passphrase is no secret.
PASSPHRASE = "local"  # noqa: S105


def link_tools(layout: Layout, binaries: Mapping[str, Path]) -> None:
    """Link kubectl and pulumi into the cluster's `bin`, with a stand-in for each Pulumi plugin that is absent."""
    for name in ("kubectl", "pulumi"):
        if name in binaries:
            (layout.bin / name).symlink_to(binaries[name])
    home = layout.root / "pulumi" / "home"
    (layout.root / "pulumi" / "backend").mkdir(mode=0o700)
    home.mkdir(mode=0o700)
    installed = _user_plugins()
    if installed.is_dir():
        # The cluster has a PULUMI_HOME of its own, which would hide what the user has installed.
        (home / "plugins").symlink_to(installed)
    beside_pulumi = Path(binaries["pulumi"]).resolve().parent if "pulumi" in binaries else None
    official = {
        LANGUAGE_HOST: bool(beside_pulumi and (beside_pulumi / LANGUAGE_HOST).exists()),
        KUBERNETES_PROVIDER: any(installed.glob("resource-kubernetes-v*")),
    }
    for name, installed_official in official.items():
        if not installed_official and shutil.which(name, path=foreign_path()) is None and (BIN / name).exists():
            (layout.bin / name).symlink_to(BIN / name)


def variables(
    layout: Layout, prometheus_url: str | None, inherited: Mapping[str, str], olm_catalog: str | None = None
) -> dict[str, str]:
    """Variables to set, for a process or a shell; PATH is the inherited one with ours in front."""
    result = {
        "KUBECONFIG": str(layout.kubeconfig),
        "PULUMI_BACKEND_URL": f"file://{layout.root / 'pulumi' / 'backend'}",
        "PULUMI_HOME": str(layout.root / "pulumi" / "home"),
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "1",
        "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "1",
    }
    if prometheus_url is not None:
        result |= {
            "SECONDARY_SCHEDULER_PROMETHEUS_URL": prometheus_url,
            "SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE": str(layout.prometheus_token),
            "SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE": str(layout.prometheus_ca),
        }
    if olm_catalog is not None:
        result["SECONDARY_SCHEDULER_OLM_CATALOG"] = olm_catalog
    ours = [str(layout.bin), str(Path(sys.executable).parent)]
    others = [part for part in inherited.get("PATH", os.defpath).split(os.pathsep) if part and part not in ours]
    result["PATH"] = os.pathsep.join([*ours, *others])
    return result


def export_lines(values: Mapping[str, str]) -> str:
    """`export NAME=value` lines for `eval`, quoted for any POSIX shell."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def _user_plugins() -> Path:
    home = os.environ.get("PULUMI_HOME")
    return (Path(home) if home else Path.home() / ".pulumi") / "plugins"
