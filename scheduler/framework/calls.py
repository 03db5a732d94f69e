"""Calling plugins: what their answers are turned into, and what becomes of those that fail."""

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field

from scheduler.framework.cycle import CycleState, OverBudgetError
from scheduler.framework.interface import PostFilterResult
from scheduler.framework.status import Code, CodeArray, IntArray, Status, failure, unschedulable

Q = ParamSpec("Q")
T = TypeVar("T")

# Plain numbers: when compared with a member of an enum, the column would first become one of 64-bit integers.
_NO_VERDICTS = tuple(map(int, (Code.ERROR, Code.WAIT, Code.SKIP)))

# Upstream words an error at each extension point differently.
_WORDING = {
    "PreFilter": 'running PreFilter plugin "{plugin}": {cause}',
    "Filter": 'running "{plugin}" filter plugin: {cause}',
    "PostFilter": 'running "{plugin}" postfilter plugin: {cause}',
    "PreScore": 'running PreScore plugin "{plugin}": {cause}',
    "Score": 'running Score plugins: plugin "{plugin}" failed with: {cause}',
    "NormalizeScore": 'running Normalize on Score plugins: plugin "{plugin}" failed with: {cause}',
}


class PluginError(Exception):
    """A plugin raised, or answered what its extension point does not allow.

    Attributes:
        plugin: its name.
        point: the extension point.
        status: what the pod gets.
    """

    def __init__(self, plugin: str, point: str, cause: object) -> None:
        self.plugin = plugin
        self.point = point
        self.status = failure(_WORDING[point].format(plugin=plugin, cause=cause), plugin)
        super().__init__(self.status.error)


class PluginScores(Struct):
    """One score plugin's numbers for the feasible rows."""

    plugin: str
    weight: int
    raw: IntArray
    normalized: IntArray

    @property
    def weighted(self) -> IntArray:
        """Return what the plugin adds to the total."""
        return self.normalized if self.weight == 1 else self.normalized * self.weight


class PermitOutcome(Struct):
    """What Permit said: a status, and for every plugin that holds the pod how long at most (seconds)."""

    status: Status
    waits: dict[str, float] = field(default_factory=dict)


PreFilterOutcome = tuple[Status, frozenset[str] | None, tuple[str, ...]]
"""A status, the only nodes worth filtering (None: all), the plugins that left the others out."""


def check_codes(plugin: str, codes: CodeArray) -> None:
    """Raise PluginError where a filter gave a node something else than Success or a rejection."""
    if any((codes == code).any() for code in _NO_VERDICTS):
        raise PluginError(plugin, "Filter", "answered a code that a filter may not give")


def attributed(status: Status, plugin: str, point: str) -> Status:
    """Keep a rejection as it is; word anything else as upstream words an error."""
    if status.is_rejection:
        return status.with_plugin(plugin)
    return failure(f'running {point} plugin "{plugin}": {status.message}', plugin)


def call_plugin(
    state: CycleState,
    plugin: str,
    point: str,
    call: Callable[Concatenate[CycleState, Q], T],
    *args: Q.args,
    **kwargs: Q.kwargs,
) -> T:
    """Call a plugin with the state; whatever it raises becomes a PluginError, unless the attempt is over budget."""
    timing = state.timing
    if timing is not None:
        timing.called(plugin, point)
    try:
        return timed(state, plugin, point, call, *args, **kwargs)
    except OverBudgetError as error:
        error.plugin = error.plugin or plugin
        raise
    except Exception as error:
        # A plugin that fails on one pod must cost that pod one attempt, and nobody else anything. Upstream lets a panic
        # end the process; the pod at the head of the queue would then end every process that follows.
        raise PluginError(plugin, point, error) from error


def timed(
    state: CycleState,
    plugin: str,
    point: str,
    call: Callable[Concatenate[CycleState, Q], T],
    *args: Q.args,
    **kwargs: Q.kwargs,
) -> T:
    """Call a plugin with the state, and measure it where plugins are measured in this attempt."""
    timing = state.timing
    if timing is None or not timing.times_plugins:
        return call(state, *args, **kwargs)
    began = timing.now()
    answer = call(state, *args, **kwargs)
    timing.plugin(plugin, point, answer, timing.now() - began)
    return answer


async def timed_to_end(
    state: CycleState,
    plugin: str,
    point: str,
    call: Callable[Concatenate[CycleState, Q], Awaitable[T]],
    *args: Q.args,
    **kwargs: Q.kwargs,
) -> T:
    """As `timed`, for a plugin whose answer takes a while."""
    timing = state.timing
    if timing is None or not timing.times_plugins:
        return await call(state, *args, **kwargs)
    began = timing.now()
    answer = await call(state, *args, **kwargs)
    timing.plugin(plugin, point, answer, timing.now() - began)
    return answer


class PostFilterAnswers:
    """What PostFilter plugins answered so far, taken together."""

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._rejector = ""
        self._result: PostFilterResult | None = None
        self._last: tuple[PostFilterResult | None, Status] | None = None

    def ends_with(self, plugin: str, answer: PostFilterResult | None, status: Status) -> bool:
        """Add an answer; tell whether it is the last word."""
        if status.code in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
            self._last = answer, status.with_plugin(plugin)
        elif not status.is_rejection:
            self._last = None, failure(status.message, plugin)
        else:
            if answer is not None and answer.nominated_node is not None:
                self._result = answer
            self._reasons += status.reasons
            self._rejector = self._rejector or plugin
        return self._last is not None

    @property
    def outcome(self) -> tuple[PostFilterResult | None, Status]:
        """Return the last word, else all reasons together and the last word on the nomination."""
        return self._last or (self._result, unschedulable(*self._reasons, plugin=self._rejector))
