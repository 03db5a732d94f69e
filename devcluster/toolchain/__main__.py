"""Finds or builds the binaries of the local cluster, with a line per binary: what tests run before they need them.

With minors of Kubernetes as arguments (`1.36 1.37`) only their control planes and kube-schedulers; with names of
binaries (`cosign`) only these. With `--all` also what only the long tests need.
"""

from __future__ import annotations

import sys

from rich.console import Console

from devcluster.errors import DevClusterError
from devcluster.progress import reporter
from devcluster.releases import COMPONENTS
from devcluster.toolchain.binaries import BINARIES, ensure

NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "prometheus",
    "promtool",
    "kubectl",
    "pulumi",
    "scheduler-plugins",
    "olm-operator",
    "catalog-operator",
    "opm",
)
FOR_LONG_TESTS = ("helm", "etcdutl")


def main(arguments: list[str]) -> int:
    """Exit code 0 when every binary is there, 1 with one line when one cannot be had."""
    console = Console(stderr=True)
    try:
        with reporter(console) as report:
            if arguments in ([], ["--all"]):
                ensure((*NAMES, *FOR_LONG_TESTS) if arguments else NAMES, report)
            else:
                named = [argument for argument in arguments if argument in BINARIES]
                ensure(named, report)
                for minor in arguments:
                    if minor not in named:
                        ensure(sorted(COMPONENTS), report, minor)
    except DevClusterError as error:
        console.print(f"toolchain: {error}", markup=False, highlight=False, soft_wrap=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
