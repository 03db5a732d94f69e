"""The event loop: watch events in; decisions, reservations, bindings, Events and status patches out.

What belongs here: whatever has an effect or a clock on the way of a pod. It implements the `Handle` through which
plugins have effects, and assembles plugins and state (`assemble`, also for `simulate` and the benchmarks). May import
everything of the scheduler but `daemon` and what is above it. One thread owns cache and queue; nothing here takes a
lock.

The live engine is imported when it is asked for: `simulate` needs neither its HTTP client nor its metrics.
"""

from typing import TYPE_CHECKING

from scheduler.engine.assembly import SYSTEM_CLOCKS, Assembly, assemble, plugin_environment, read_named_file
from scheduler.engine.attempts import AttemptPipeline, GangReservation, is_reserved, refusal_message
from scheduler.lazy import lazy_attributes

if TYPE_CHECKING:
    from scheduler.engine.decisions import HISTORY_BYTES, DecisionHistory, HistoryLimits
    from scheduler.engine.engine import Engine, Outputs, Permissions
    from scheduler.engine.extenderhttp import ExtenderEndpoint
    from scheduler.engine.extenderrecords import AnswerRecord, RecordedAnswers, UnrecordedError
    from scheduler.engine.extenders import Extending
    from scheduler.engine.handedover import MAX_HANDOVER_BYTES, HistoryError, Takeover, decode_history
    from scheduler.engine.inputs import NodeUpdate, reduce_node_update
    from scheduler.engine.loadfeeds import LoadFeeds
    from scheduler.engine.nodecheck import MAX_ANSWER_BYTES, check_rules, node_facts
    from scheduler.engine.nodeloads import show_requested
    from scheduler.engine.objects import declared_watches, new_reflector
    from scheduler.engine.overcommits import OvercommitReport
    from scheduler.engine.recorder import EventRecorder, Regarding
    from scheduler.engine.versions import VersionFollower, describe_versions, versions_text

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "HISTORY_BYTES": "decisions",
            "DecisionHistory": "decisions",
            "HistoryLimits": "decisions",
            "MAX_HANDOVER_BYTES": "handedover",
            "HistoryError": "handedover",
            "decode_history": "handedover",
            "Engine": "engine",
            "Outputs": "engine",
            "Permissions": "engine",
            "ExtenderEndpoint": "extenderhttp",
            "AnswerRecord": "extenderrecords",
            "RecordedAnswers": "extenderrecords",
            "UnrecordedError": "extenderrecords",
            "Extending": "extenders",
            "check_rules": "nodecheck",
            "MAX_ANSWER_BYTES": "nodecheck",
            "NodeUpdate": "inputs",
            "reduce_node_update": "inputs",
            "LoadFeeds": "loadfeeds",
            "node_facts": "nodecheck",
            "show_requested": "nodeloads",
            "declared_watches": "objects",
            "new_reflector": "objects",
            "OvercommitReport": "overcommits",
            "EventRecorder": "recorder",
            "Regarding": "recorder",
            "Takeover": "handedover",
            "VersionFollower": "versions",
            "describe_versions": "versions",
            "versions_text": "versions",
        },
    )


__all__ = [
    "HISTORY_BYTES",
    "MAX_ANSWER_BYTES",
    "MAX_HANDOVER_BYTES",
    "SYSTEM_CLOCKS",
    "AnswerRecord",
    "Assembly",
    "AttemptPipeline",
    "DecisionHistory",
    "Engine",
    "EventRecorder",
    "ExtenderEndpoint",
    "Extending",
    "GangReservation",
    "HistoryError",
    "HistoryLimits",
    "LoadFeeds",
    "NodeUpdate",
    "Outputs",
    "OvercommitReport",
    "Permissions",
    "RecordedAnswers",
    "Regarding",
    "Takeover",
    "UnrecordedError",
    "VersionFollower",
    "assemble",
    "check_rules",
    "declared_watches",
    "decode_history",
    "describe_versions",
    "is_reserved",
    "new_reflector",
    "node_facts",
    "plugin_environment",
    "read_named_file",
    "reduce_node_update",
    "refusal_message",
    "show_requested",
    "versions_text",
]
