"""Command line of the agent: ``python -m devcluster.node_agent``."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster.node_agent.app import Agent, AgentSettings, StateDirectoryError
from devcluster.node_agent.containers import AgentTiming
from devcluster.node_agent.images import ImageMapError, parse_image_map
from devcluster.node_agent.podman import PodmanUnavailableError
from devcluster.node_agent.sandbox import TIERS, SandboxUnavailableError
from scheduler.kube.client import ConfigError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="node-agent", description="Run the pods of one node, as processes or by podman."
    )
    timing = AgentTiming()
    add = parser.add_argument
    add("--kubeconfig", type=Path, required=True, help="credentials that may manage this node and its pods")
    add("--node-name", required=True)
    add("--state-dir", type=Path, required=True, help="directory for volumes, logs and records; one per agent")
    add("--image-map", type=Path, required=True, help="JSON file: image repository to host commands")
    add("--pod-cidr-base", default="127.10.0.0", help="the node's pod addresses within 127.0.0.0/8, a /24 unless given")
    add("--containers", choices=("processes", "podman"), default="processes", help="what the containers of pods are")
    add("--sandbox", choices=TIERS, default="auto", help="how processes are kept apart (default: the best that works)")
    add("--mask", type=Path, action="append", default=[], help="host path that no pod may see; may be repeated")
    add("--backoff-base", type=float, default=timing.backoff_base, help="first CrashLoopBackOff, seconds (default: 10)")
    add("--backoff-limit", type=float, default=timing.backoff_limit, help="longest back-off, seconds (default: 300)")
    add("--shutdown-grace", type=float, default=timing.shutdown_grace, help="longest grace on our own end, seconds")
    add("-v", "--verbose", action="store_true", help="log debug messages")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; exit code 1 (with a line on stderr) if it cannot start, 4 for a bad image map."""
    options = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    try:
        images = parse_image_map(options.image_map.read_text())
    except (ImageMapError, OSError) as error:
        return _fail(f"image map {options.image_map}: {error}", 4)
    timing = AgentTiming(
        backoff_base=options.backoff_base,
        backoff_limit=options.backoff_limit,
        shutdown_grace=options.shutdown_grace,
    )
    settings = AgentSettings(
        kubeconfig=options.kubeconfig,
        node_name=options.node_name,
        state_dir=options.state_dir,
        images=images,
        pod_network=options.pod_cidr_base,
        containers=options.containers,
        sandbox=options.sandbox,
        masked=tuple(options.mask),
        timing=timing,
    )
    try:
        agent = Agent(settings)
    except (
        ConfigError,
        PodmanUnavailableError,
        SandboxUnavailableError,
        StateDirectoryError,
        ValueError,
        OSError,
    ) as error:
        return _fail(str(error), 1)
    try:
        asyncio.run(agent.run())
    except PodmanUnavailableError as error:
        return _fail(str(error), 1)
    return 0


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"node-agent: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
