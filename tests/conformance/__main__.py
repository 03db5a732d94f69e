"""`python -m tests.conformance --cases N --seed S --features a,b`: compare more cases than the tests do."""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
from collections.abc import Iterator

from devcluster import releases
from devcluster.errors import SpecError
from scheduler.catalog import minor_of
from tests.conformance import profiles
from tests.conformance.case import Case
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.features import FEATURES, available
from tests.conformance.generator import choose, generate
from tests.conformance.older import OLDER_VERSIONS
from tests.conformance.oracle import oracle_of
from tests.conformance.ours import Ours
from tests.conformance.runner import Runner, keep, regressions


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="Compare our scheduler with the real kube-scheduler on random clusters and pods.",
    )
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="number of cases (500)")
    parser.add_argument(
        "--kubernetes",
        default=releases.chosen(),
        metavar="MINOR",
        help=f"of the real scheduler; ours behaves as the nearest that it can ({releases.DEFAULT})",
    )
    parser.add_argument("--seed", type=int, metavar="S", help="first seed (random; printed)")
    parser.add_argument("--features", default="", metavar="A,B", help="only these; see --list")
    parser.add_argument("--together", action="store_true", help="all chosen features in every case")
    parser.add_argument("--profile", default="", help="only this profile")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one case, with exactly --features and --profile")
    parser.add_argument("--regressions", action="store_true", help="only the cases that once failed")
    parser.add_argument("--keep", action="store_true", help="add failing cases to regressions.json")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--list", action="store_true", help="list features and profiles")
    options = parser.parse_args(arguments)
    if options.cases < 1:
        parser.error("--cases: at least 1")
    try:
        options.kubernetes = releases.release_of(options.kubernetes).minor
    except SpecError as error:
        parser.error(f"--kubernetes: {error}")
    names = [name for name in options.features.split(",") if name]
    unknown = [name for name in names if name not in FEATURES]
    if unknown:
        parser.error(f"--features: no feature {', '.join(unknown)}; one of {', '.join(FEATURES)}")
    options.features = names
    variants = [variant.name for variant in profiles.variants()]
    if options.profile and options.profile not in variants:
        parser.error(f"--profile: no profile {options.profile}; one of {', '.join(variants)}")
    return options


def _cases(options: argparse.Namespace, seed: int, minor: int) -> Iterator[Case]:
    if options.regressions:
        yield from regressions()
        return
    names = options.features or _asked(options.kubernetes, minor)
    known = [options.profile] if options.profile else [variant.name for variant in profiles.variants()]
    if options.replay is not None:
        yield generate(options.replay, names, options.profile or "default")
        return
    for number in range(seed, seed + options.cases):
        chosen, profile = choose(number, names, known)
        yield generate(number, names if options.together else chosen, options.profile or profile)


def _asked(kubernetes: str, served: int) -> list[str]:
    """Features for a scheduler of a minor on an API server of another: without those that are known to differ."""
    older = OLDER_VERSIONS.get(minor_of(kubernetes) or 0)
    unasked = older.unasked if older else {}
    return [name for name in available(profiles.implemented(), served) if name not in unasked]


async def _run(options: argparse.Namespace, seed: int, control_plane: ControlPlane) -> int:
    async with oracle_of(control_plane) as oracle:
        older = OLDER_VERSIONS.get(minor_of(options.kubernetes) or 0)
        summary = await Runner(oracle, Ours(kubernetes=control_plane.kubernetes), older).run(
            _cases(options, seed, control_plane.served), seconds=options.seconds
        )
    print("\n\n".join(summary.mismatches))
    if options.keep:
        print(f"kept {keep(summary.failed)} new regressions")
    print(f"seed {seed}, Kubernetes {options.kubernetes}, ours as {control_plane.kubernetes.name}")
    print(summary.text())
    return 1 if summary.mismatches or summary.refused else 0


def main(arguments: list[str]) -> int:
    """Exit code 0 when everything agrees, 1 on a difference or a refused case, 2 on wrong usage."""
    options = _parse(arguments)
    # As on Ctrl-C: the control plane and the scheduler end with the run.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.list:
        minor = minor_of(options.kubernetes) or 0
        have = _asked(options.kubernetes, minor)
        older = OLDER_VERSIONS.get(minor)
        for name, feature in FEATURES.items():
            missing = sorted(feature.needs - profiles.implemented())
            why = f"not yet: {', '.join(missing)}" if missing else f"differs: {feature.differs}"
            why = f"since 1.{feature.since}" if feature.since > minor else why
            why = older.unasked[name] if older and name in older.unasked else why
            print(name if name in have else f"{name} ({why})")
        print("profiles:", ", ".join(variant.name for variant in profiles.variants()))
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    # First of all: a run that ends early can be repeated, too.
    print(f"seed {seed}", flush=True)
    with control_plane_running(options.kubernetes) as control_plane:
        return asyncio.run(_run(options, seed, control_plane))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
