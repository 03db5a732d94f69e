"""The event loop: watch events in; decisions, reservations, bindings, Events and status patches out.

What belongs here: whatever has an effect or a clock on the way of a pod. It implements the `Handle` through which
plugins have effects, and assembles plugins and state (`assemble`, also for `simulate` and the benchmarks). May import
everything of the scheduler but `daemon` and what is above it. One thread owns cache and queue; nothing here takes a
lock.

The live engine is imported when it is asked for: `simulate` needs neither its HTTP client nor its metrics.
"""

from typing import TYPE_CHECKING

from scheduler.engine.assembly import (
    SYSTEM_CLOCKS as SYSTEM_CLOCKS,
    Assembly as Assembly,
    assemble as assemble,
    plugin_environment as plugin_environment,
    read_named_file as read_named_file,
)
from scheduler.engine.attempts import (
    AttemptPipeline as AttemptPipeline,
    is_reserved as is_reserved,
    refusal_message as refusal_message,
)
from scheduler.lazy import lazy_attributes

if TYPE_CHECKING:
    from scheduler.engine.decisions import (
        HISTORY_BYTES as HISTORY_BYTES,
        DecisionHistory as DecisionHistory,
        HistoryLimits as HistoryLimits,
    )
    from scheduler.engine.engine import Engine as Engine, Outputs as Outputs, Permissions as Permissions
    from scheduler.engine.extenderrecords import (
        AnswerRecord as AnswerRecord,
        RecordedAnswers as RecordedAnswers,
        UnrecordedError as UnrecordedError,
    )
    from scheduler.engine.extenders import ExtenderEndpoint as ExtenderEndpoint, Extending as Extending
    from scheduler.engine.handedover import (
        MAX_HANDOVER_BYTES as MAX_HANDOVER_BYTES,
        HistoryError as HistoryError,
        Takeover as Takeover,
        decode_history as decode_history,
    )
    from scheduler.engine.inputs import NodeUpdate as NodeUpdate, reduce_node_update as reduce_node_update
    from scheduler.engine.inspector import node_report as node_report, why_not as why_not
    from scheduler.engine.loadfeeds import LoadFeeds as LoadFeeds, show_requested as show_requested
    from scheduler.engine.nodecheck import MAX_ANSWER_BYTES as MAX_ANSWER_BYTES, check_rules as check_rules
    from scheduler.engine.objects import declared_watches as declared_watches, new_reflector as new_reflector
    from scheduler.engine.overcommits import OvercommitReport as OvercommitReport
    from scheduler.engine.recorder import EventRecorder as EventRecorder, Regarding as Regarding
    from scheduler.engine.versions import (
        VersionFollower as VersionFollower,
        describe_versions as describe_versions,
        versions_text as versions_text,
    )

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
            "ExtenderEndpoint": "extenders",
            "AnswerRecord": "extenderrecords",
            "RecordedAnswers": "extenderrecords",
            "UnrecordedError": "extenderrecords",
            "Extending": "extenders",
            "check_rules": "nodecheck",
            "MAX_ANSWER_BYTES": "nodecheck",
            "NodeUpdate": "inputs",
            "reduce_node_update": "inputs",
            "LoadFeeds": "loadfeeds",
            "node_report": "inspector",
            "why_not": "inspector",
            "show_requested": "loadfeeds",
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
