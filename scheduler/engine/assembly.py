"""From a configuration to profiles that can decide: the one wiring of plugins and state.

The daemon adds queue, handles and watches to it (`engine.Engine`); `simulate`, the benchmarks and the tests take it as
it is. A plugin therefore meets the same set-up in all of them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from scheduler.config import Configuration
from scheduler.engine.attempts import AttemptPipeline
from scheduler.framework import (
    Clocks,
    Extender,
    Handle,
    MonotonicSeconds,
    NamedFile,
    PluginEnvironment,
    ProfileRunner,
    RandomSource,
    WallSeconds,
)
from scheduler.plugins import build_profile
from scheduler.state import ClusterState

# The functions themselves: several calls per pod would else go through a frame of Python each. The types are for mypy.
SYSTEM_CLOCKS = Clocks(
    cast("Callable[[], WallSeconds]", time.time), cast("Callable[[], MonotonicSeconds]", time.monotonic)
)
"""The clocks of this machine."""


def plugin_environment(clocks: Clocks = SYSTEM_CLOCKS, scheduler_names: Iterable[str] = ()) -> PluginEnvironment:
    """Return the environment of this process, with the given clocks; it places pods of these scheduler names."""
    return PluginEnvironment(clocks, read_named_file, frozenset(scheduler_names))


def read_named_file(variable: str) -> NamedFile:
    """Read the file that an environment variable names.

    Raises:
        ValueError: the variable is not set, or the file cannot be read; worded as by upstream.
    """
    path = os.environ.get(variable, "")
    if not path:
        # Path("") would be the current directory.
        raise ValueError("open : no such file or directory")
    try:
        return NamedFile(path, Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"open {path}: {(error.strerror or '').lower()}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{variable} {path}: not UTF-8 text") from error


class Assembly(Struct, frozen=True):
    """Profiles on one state.

    Attributes:
        runners: by scheduler name, in the order of the configuration.
        attempts: the steps of an attempt, for all of the profiles.
    """

    state: ClusterState
    runners: Mapping[str, ProfileRunner]
    attempts: AttemptPipeline


def assemble(
    configuration: Configuration,
    *,
    clocks: Clocks = SYSTEM_CLOCKS,
    rng: RandomSource | None = None,
    state: ClusterState | None = None,
    new_handle: Callable[[str], Handle] | None = None,
    extenders: Sequence[Extender] = (),
) -> Assembly:
    """Build the plugins of every profile and give them the state to look at.

    Args:
        configuration: what is enabled, with which args.
        clocks: for the time of decisions, and for plugins without a handle.
        rng: breaks ties; seeded by the system where none is given.
        state: the cluster; an empty one where none is given. It may be filled before or after.
        new_handle: returns the handle of a scheduler name; without it nothing a plugin does has an effect.
        extenders: have a say in decisions, in calling order; without any, attempts ask nothing.

    Raises:
        ValueError: a plugin refuses its args, or cannot be imported; the text names it.
    """
    cluster = ClusterState() if state is None else state
    environment = plugin_environment(clocks, _scheduler_names(configuration))
    runners: dict[str, ProfileRunner] = {}
    for profile in configuration.served:
        handle = None if new_handle is None else new_handle(profile.scheduler_name)
        runners[profile.scheduler_name] = build_profile(profile, handle, environment=environment)
    # Once all are built: where a plugin refuses its args, none has been attached to the caller's state.
    for runner in runners.values():
        runner.use_objects(cluster.objects)
        runner.use_pods(cluster.directory)
    attempts = AttemptPipeline(cluster, runners, rng or random.Random(), clocks, extenders)
    return Assembly(cluster, runners, attempts)


def assemble_shadows(configuration: Configuration, state: ClusterState, clocks: Clocks) -> dict[str, ProfileRunner]:
    """Return the shadow of each served profile that has one, by its scheduler name. Nothing they do has an effect.

    Raises:
        ValueError: a plugin refuses its args.
    """
    shadows: dict[str, ProfileRunner] = {}
    for profile in configuration.served:
        if profile.options.shadow is not None:
            shadow = configuration.profile(profile.options.shadow.profile)
            environment = plugin_environment(clocks, _scheduler_names(configuration))
            runner = build_profile(shadow, None, environment=environment)
            runner.use_objects(state.objects)
            runner.use_pods(state.directory)
            shadows[profile.scheduler_name] = runner
    return shadows


def _scheduler_names(configuration: Configuration) -> list[str]:
    return [profile.scheduler_name for profile in configuration.served]
