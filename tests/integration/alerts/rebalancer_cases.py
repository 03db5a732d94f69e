"""Series for promtool about the rebalancer, and which alert fires for them: scrapes 30 s apart, rounds five minutes.

Ten scrapes are a round. Time begins with 0 in these tests, and so does the time of the last round.
"""

from __future__ import annotations

from tests.integration.alerts.cases import NAMESPACE, REBALANCER, Case, fires, of, quiet

_VALUES = (REBALANCER, NAMESPACE)
_ALERT = "Rebalancer"


def gauge(name: str, values: str = "1x900", instance: str = "r", **labels: str) -> dict[str, str]:
    return {of(f"secondary_scheduler_rebalance_{name}", instance, REBALANCER, **labels): values}


def _running() -> list[Case]:
    up, up_again = of("up", "r", REBALANCER), of("up", "s", REBALANCER)
    down, leader, failing = f"{_ALERT}Down", f"{_ALERT}NoLeader", f"{_ALERT}RoundsFailing"
    interval = gauge("interval_seconds", "300x900")
    mode = gauge("mode", mode="Automatic") | gauge("mode", "0x900", mode="Off")
    works = gauge("leader") | interval | mode | gauge("status_unwritten", "0x900")
    stops = gauge("last_round_timestamp_seconds", "0x9 300x9 600x200")
    goes_on = gauge("last_round_timestamp_seconds", "0+30x900")
    standby = gauge("leader", "0x900", "s") | gauge("last_round_timestamp_seconds", "0x900", "s")
    off = gauge("mode", "0x900", mode="Automatic") | gauge("mode", mode="Off")
    leads_again = gauge("leader", "1x20 stale") | gauge("leader", "_x18 0x6 1x100", "s")
    return [
        fires(down, "there is no target", {of("up"): "1x60"}, 11, (*_VALUES,), quiet_minutes=9),
        fires(down, "its scrapes fail", {up: "1x9 0x60"}, 16, (*_VALUES,), quiet_minutes=14),
        quiet(down, "it is replaced", {up: "1x20 stale", up_again: "_x24 1x200"}),
        quiet(down, "it moves nothing", {up: "1x200"}),
        fires(leader, "one waits", gauge("leader", "0x60"), 11, _VALUES, quiet_minutes=9),
        quiet(leader, "it is replaced", leads_again),
        quiet(leader, "none is up, which is another alert", {up: "0x200"}),
        fires(failing, "the last one was long ago", works | stops | standby, 40, _VALUES, quiet_minutes=34),
        fires(
            failing,
            "the status cannot be written",
            works | goes_on | gauge("status_unwritten", "0x9 1x100"),
            16,
            _VALUES,
            quiet_minutes=14,
        ),
        fires(
            failing,
            "it leads and has never made one, as it cannot list the cluster",
            works | gauge("interval_seconds", "0x200") | gauge("last_round_timestamp_seconds", "0x200"),
            11,
            _VALUES,
            quiet_minutes=9,
        ),
        quiet(failing, "rounds go on beside a replica that waits", works | goes_on | standby, 120),
        quiet(failing, "it is switched off", gauge("leader") | interval | off | stops, 120),
        quiet(failing, "none leads, which is another alert", works | stops | gauge("leader", "0x900"), 120),
        quiet(failing, "one write of the status fails", works | goes_on | gauge("status_unwritten", "0x20 1x4 0x900")),
    ]


def _held() -> list[Case]:
    stale, stopped, limit = f"{_ALERT}LoadStale", f"{_ALERT}Stopped", f"{_ALERT}AtLimit"

    def held(reason: str, values: str = "1x900") -> dict[str, str]:
        return gauge("stopped", values, reason=reason)

    standby = gauge("stopped", "0x900", "s", reason="loadNotFresh")
    limited = gauge("limited", "1x900")
    return [
        fires(stale, "of too few nodes", held("loadNotFresh") | standby, 31, _VALUES, quiet_minutes=29),
        fires(stale, "of none", held("noLoad"), 31, _VALUES, quiet_minutes=29),
        quiet(stale, "for four rounds", held("loadNotFresh", "0x9 1x40 0x900"), 120),
        quiet(
            stale, "another reason, which is another alert", held("podsPending") | held("loadNotFresh", "0x900"), 120
        ),
        fires(
            stopped,
            "a node is not ready",
            held("nodeNotReady"),
            121,
            (*_VALUES, "nodeNotReady"),
            quiet_minutes=119,
            reason="nodeNotReady",
        ),
        quiet(stopped, "a roll-out of an hour", held("schedulerUnavailable", "0x9 1x120 0x900"), 300),
        quiet(stopped, "the load is stale, which is another alert", held("loadNotFresh"), 300),
        quiet(
            stopped,
            "one reason after another",
            held("podsPending", "1x200 0x900") | held("noRoom", "0x200 1x200 0x900"),
            300,
        ),
        fires(limit, "for an hour", limited | gauge("active"), 61, _VALUES, quiet_minutes=59),
        quiet(limit, "for eleven rounds", gauge("limited", "0x9 1x110 0x900") | gauge("active"), 300),
        quiet(limit, "evictions are only tried", limited | gauge("active", "0x900"), 300),
        quiet(limit, "nothing is overloaded", gauge("limited", "0x900") | gauge("active"), 300),
    ]


def _moves() -> list[Case]:
    fail, lost, refused = f"{_ALERT}PredictionsFail", f"{_ALERT}ReplacementsNotPlaced", f"{_ALERT}EvictionsRefused"

    def moves(**outcomes: str) -> dict[str, str]:
        all_of_them = dict.fromkeys(("landed", "elsewhere", "back", "refused", "expired"), "0x900") | outcomes
        return {
            of("secondary_scheduler_rebalance_moves_total", "r", REBALANCER, outcome=outcome): values
            for outcome, values in all_of_them.items()
        }

    def tried(refusals: str) -> dict[str, str]:
        return {of("secondary_scheduler_rebalance_dry_runs_total", "r", REBALANCER, answer="refused"): refusals}

    ended, trusted = gauge("stopped", reason="predictionFails"), gauge("stopped", "0x900", reason="predictionFails")
    return [
        fires(fail, "three in a row ended Automatic", ended | moves(), 1, _VALUES),
        fires(
            fail,
            "more come back than land",
            trusted | moves(elsewhere="0x19 1x9 2x9 3x900", back="0x49 1x900", landed="0x9 1x900"),
            45,
            _VALUES,
            quiet_minutes=15,
        ),
        quiet(fail, "one of ten", trusted | moves(landed="0x9 9x900", back="0x19 1x900"), 300),
        quiet(fail, "two of two", trusted | moves(back="0x9 1x9 2x900"), 300),
        quiet(fail, "it restarts, and the counters", trusted | moves(landed="9x9 0x900", back="5x9 0x900"), 300),
        fires(lost, "one", moves(expired="0x19 1x900"), 12, ("1", *_VALUES), quiet_minutes=9),
        quiet(lost, "all landed", moves(landed="0x9 1x9 2x900")),
        quiet(lost, "one long ago", moves(expired="3x900")),
        fires(
            refused,
            "three within an hour",
            moves(refused="0x19 1x9 2x9 3x900") | tried("0x900"),
            40,
            ("3", *_VALUES),
            quiet_minutes=12,
        ),
        fires(
            refused,
            "each round's that is only tried",
            moves() | tried("0+0.1x900"),
            80,
            ("12", *_VALUES),
            quiet_minutes=9,
        ),
        quiet(refused, "two within an hour", moves(refused="0x19 1x9 2x900") | tried("0x900"), 120),
        quiet(refused, "all landed", moves(landed="0+1x900") | tried("0x900"), 120),
    ]


CASES = [*_running(), *_held(), *_moves()]
