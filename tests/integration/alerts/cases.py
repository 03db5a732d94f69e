"""Series for promtool, and which alert fires for them: for each alert what it is about, and what comes close to it.

Scrapes are 30 s apart, as the ServiceMonitors have it. Values are in promtool's notation: `1x20` is 1 in 21 scrapes,
`_x20` nothing in as many, `0+3x20` a counter that grows by 3, `stale` the end of a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NAMESPACE = "scheduling"
JOB = "secondary-scheduler"
OPERATOR = "secondary-scheduler-operator-metrics"
REBALANCER = "secondary-scheduler-rebalancer"
_LEADER = "leader_election_master_status"
_SOURCE = "Prometheus https://prometheus:9090"


@dataclass(frozen=True)
class Firing:
    """An alert that is expected: its labels beside job and namespace, and the values in its description."""

    labels: dict[str, str]
    values: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """Series, and whether an alert fires.

    Attributes:
        alert, situation: what it is about; the two are unique.
        series: values by series.
        minutes: when it fires, or until when it must not fire at any scrape.
        firing: None where it must not.
        quiet_minutes: until when it does not fire yet; for one that fires.
    """

    alert: str
    situation: str
    series: dict[str, str]
    minutes: int
    firing: Firing | None = None
    quiet_minutes: int = 0

    def __str__(self) -> str:
        return f"{self.alert.removeprefix('SecondaryScheduler')}: {self.situation}"


def of(metric: str, instance: str = "a", job: str = JOB, namespace: str = NAMESPACE, **labels: str) -> str:
    """A series as Prometheus stores it of a target."""
    target = {"job": job, "namespace": namespace, "instance": instance, "pod": f"pod-{instance}"}
    pairs = (f'{name}="{value}"' for name, value in (target | labels).items())
    return f"{metric}{{{','.join(pairs)}}}"


def leads(instance: str = "a", values: str = "1x200") -> dict[str, str]:
    return {of(_LEADER, instance, name="secondary-scheduler"): values}


def fires(
    alert: str,
    situation: str,
    series: dict[str, str],
    minutes: int,
    values: Sequence[str] = (JOB, NAMESPACE),
    quiet_minutes: int = 0,
    **labels: str,
) -> Case:
    return Case(f"SecondaryScheduler{alert}", situation, series, minutes, Firing(labels, tuple(values)), quiet_minutes)


def quiet(alert: str, situation: str, series: dict[str, str], minutes: int = 60) -> Case:
    return Case(f"SecondaryScheduler{alert}", situation, series, minutes)


def _running() -> list[Case]:
    up = "up"
    refused = "secondary_scheduler_watch_refused"
    return [
        fires("Down", "its scrapes fail", {of(up): "1x9 0x60"}, 11, quiet_minutes=9),
        fires("Down", "there is no target", {of(up, job="other"): "1x60"}, 6, quiet_minutes=4),
        quiet("Down", "a rollout", {of(up): "1x20 stale", of(up, "b"): "_x18 0 1x100"}),
        quiet(
            "Down", "the only pod is replaced within three minutes", {of(up): "1x20 stale", of(up, "b"): "_x27 1x99"}
        ),
        quiet("Down", "one of two replicas is down", {of(up): "1x200", of(up, "b"): "0x200"}),
        fires("NoLeader", "two replicas wait", leads(values="0x60") | leads("b", "0x60"), 6, quiet_minutes=4),
        quiet("NoLeader", "the leader changes", leads(values="1x20 stale") | leads("b", "0x22 1x200")),
        quiet("NoLeader", "a rollout", leads(values="1x20 0 stale") | leads("b", "_x18 0x5 1x200")),
        quiet("NoLeader", "none is up, which is another alert", {of(up): "0x200"}),
        quiet("NoLeader", "it has no pods and leads", leads()),
        fires(
            "WatchRefused",
            "two kinds are refused on both replicas",
            {of(refused, each, resource=kind): "0x3 1x60" for each in "ab" for kind in ("pods", "nodes")},
            8,
            ("2", JOB, NAMESPACE),
            quiet_minutes=6,
        ),
        quiet("WatchRefused", "a right is back after two minutes", {of(refused, resource="pods"): "0x3 1x4 0x200"}),
        quiet("WatchRefused", "nothing was ever refused", leads()),
    ]


def _certificates() -> list[Case]:
    """Time begins with 0 in these tests, in the middle of each certificate's validity."""
    metric, hour = "secondary_scheduler_serving_certificate_timestamp_seconds", 3600

    def valid(since: int, until: int, scrapes: str = "x200") -> dict[str, str]:
        begin, end = of(metric, bound="not_before"), of(metric, bound="not_after")
        return {begin: f"{since * hour}{scrapes}", end: f"{until * hour}{scrapes}"}

    renewed = {
        of(metric, bound="not_before"): f"{-90 * 24 * hour}x20 0x200",
        of(metric, bound="not_after"): f"{5 * 24 * hour}x20 {90 * 24 * hour}x200",
    }
    alert = "CertificateExpiring"
    left = "4d 23h 40m 0s"
    return [
        fires(alert, "five days are left of a year", valid(-360 * 24, 5 * 24), 20, (JOB, NAMESPACE, left), 14),
        fires(alert, "two hours are left of a day", valid(-22, 2), 20, (JOB, NAMESPACE, "1h 40m 0s"), 14),
        quiet(alert, "a month is left of a year", valid(-330 * 24, 30 * 24)),
        quiet(alert, "half of a day is left", valid(-12, 12)),
        quiet(alert, "it is renewed within ten minutes", renewed),
        quiet(alert, "it is self-signed", leads()),
    ]


def _load() -> list[Case]:
    def fresh(instance: str = "a", values: str = "1x200") -> dict[str, str]:
        return {of("secondary_scheduler_load_data_fresh", instance, source=_SOURCE): values}

    def nodes(instance: str = "a", **states: str) -> dict[str, str]:
        name = "secondary_scheduler_load_node_states"
        return {of(name, instance, source=_SOURCE, state=state): values for state, values in states.items()}

    stale, without = "LoadDataStale", "NodesWithoutLoad"
    three_of_twenty = nodes(fresh="17x100", stale="1x100", absent="2x100")
    standby = leads("b", "0x200") | fresh("b", "0x200") | nodes("b", fresh="0x200", absent="20x200")
    healthy = leads() | fresh() | nodes(fresh="20x200", stale="0x200", absent="0x200")
    return [
        fires(
            stale,
            "the leader's is, though another replica's is not",
            leads() | fresh(values="1x3 0x100") | leads("b", "0x200") | fresh("b"),
            13,
            (_SOURCE, JOB, NAMESPACE),
            quiet_minutes=11,
            source=_SOURCE,
        ),
        fires(stale, "no Lease is used", fresh(values="0x100"), 11, (_SOURCE, JOB, NAMESPACE), source=_SOURCE),
        quiet(
            stale, "a rollout: a new process has not read yet", leads(values="0x2 1x200") | fresh(values="0x4 1x200")
        ),
        quiet(stale, "the source is away for five minutes", leads() | fresh(values="1x20 0x10 1x200")),
        quiet(stale, "only a replica that waits has none", healthy | standby),
        quiet(stale, "no plugin reads load", leads()),
        fires(
            without,
            "of three in twenty",
            leads() | fresh() | three_of_twenty,
            16,
            ("15%", _SOURCE, JOB, NAMESPACE),
            quiet_minutes=14,
            source=_SOURCE,
        ),
        quiet(without, "of one in twenty", leads() | fresh() | nodes(fresh="19x200", stale="0x200", absent="1x200")),
        quiet(
            without,
            "the cluster doubles",
            leads() | fresh() | nodes(fresh="20x9 40x200", stale="0x200", absent="0x9 20x9 0x200"),
        ),
        quiet(
            without,
            "nothing is fresh, which is another alert",
            leads() | fresh(values="0x200") | nodes(fresh="0x200", stale="20x200", absent="0x200"),
        ),
        quiet(without, "there are no nodes", leads() | fresh() | nodes(fresh="0x200", stale="0x200", absent="0x200")),
        quiet(without, "only for a replica that waits", healthy | standby),
    ]


def _bindings() -> list[Case]:
    def bindings(instance: str = "a", **outcomes: str) -> dict[str, str]:
        return {
            of("secondary_scheduler_bindings_total", instance, outcome=each): values
            for each, values in outcomes.items()
        }

    alert = "BindingsFailing"
    failing = bindings(bound="0+3x100", failed="0+3x100", unknown="0x100")
    restart = bindings(bound="0+3x200", failed="0x20 3+3x4 15x200", unknown="0x20 2+2x4 10x200")
    new_process = bindings(bound="0+1x20 stale", failed="0+1x5 6x15 stale") | bindings(
        "b", bound="_x20 0+1x200", failed="_x20 0x200"
    )
    return [
        fires(alert, "half of them", failing, 17, ("30", JOB, NAMESPACE), quiet_minutes=9),
        quiet(alert, "an API server restarts", restart),
        quiet(alert, "one in five hundred", bindings(bound="0+500x200", failed="0+1x200", unknown="0x200")),
        quiet(
            alert, "one pod in an hour, each fails", bindings(bound="0x200", failed="0x20 1x100 2x80", unknown="0x200")
        ),
        quiet(
            alert,
            "one pod in four minutes, each fails",
            bindings(bound="0x200", failed="0x7 1x7 2x7 3x7 4x7 5x7 6x7 7x7 8x7 9x100", unknown="0x200"),
        ),
        quiet(alert, "a rollout: the counters begin again", new_process),
        quiet(alert, "there are no pods", bindings(bound="0x200", failed="0x200", unknown="0x200")),
    ]


def _attempts() -> list[Case]:
    def active(instance: str = "a", values: str = "5x200") -> dict[str, str]:
        return {of("scheduler_pending_pods", instance, queue="active"): values}

    def attempts(instance: str = "a", values: str = "0+10x200") -> dict[str, str]:
        labels = {"result": "scheduled", "profile": "secondary-scheduler"}
        return {of("scheduler_schedule_attempts_total", instance, **labels): values}

    alert, values = "PodsNotTried", ("5", JOB, NAMESPACE)
    change = leads(values="1x20 stale") | active(values="5x20 stale") | attempts(values="0+10x20 stale")
    change |= leads("b", "0x22 1x200") | active("b", "5x22 4x200") | attempts("b", "_x23 1+10x150")
    return [
        fires(alert, "the leader never tried one", leads() | active(), 11, values, quiet_minutes=9),
        fires(alert, "it tries none any more", leads() | active() | attempts(values="0+10x9 100x200"), 21, values, 14),
        quiet(alert, "it is busy", leads() | active(values="5000x200") | attempts()),
        quiet(
            alert,
            "a replica that waits has them in its queue",
            leads() | active(values="0x200") | attempts() | leads("b", "0x200") | active("b"),
        ),
        quiet(alert, "the leader changes", change),
        quiet(alert, "there are no pods", leads() | active(values="0x200")),
        quiet(
            alert,
            "there are none for hours after some",
            leads() | active(values="0x200") | attempts(values="0+10x9 90x200"),
        ),
    ]


def _slow() -> list[Case]:
    def decisions(fast: str, slow: str) -> dict[str, str]:
        """Fast ones take less than 1 ms, slow ones between 2 and 4 s."""
        name = "scheduler_scheduling_algorithm_duration_seconds_bucket"
        bounds = {"0.001": fast, "1.024": fast, "2.048": fast, "4.096": slow, "+Inf": slow}
        return {of(name, le=bound): values for bound, values in bounds.items()}

    alert = "AttemptsSlow"
    return [
        fires(
            alert, "all take seconds", decisions("0x200", "0+2x200"), 30, (JOB, NAMESPACE, "4.076s"), quiet_minutes=14
        ),
        quiet(alert, "all are fast", decisions("0+2x200", "0+2x200")),
        quiet(alert, "one in two hundred is slow", decisions("0+199x200", "0+200x200")),
        quiet(
            alert, "one pod in five minutes, each slow", decisions("0x200", "1x9 2x9 3x9 4x9 5x9 6x9 7x9 8x9 9x9 10x99")
        ),
        quiet(alert, "for five minutes after the start", decisions("0x10 0+9x190", "0+2x10 20+9x190")),
        quiet(alert, "there are no pods", decisions("7x200", "9x200")),
    ]


def _nodes() -> list[Case]:
    def waiting(instance: str = "a", values: str = "30x200") -> dict[str, str]:
        return {of("scheduler_pending_pods", instance, queue="unschedulable"): values}

    def placed(values: str, instance: str = "a") -> dict[str, str]:
        return {of("scheduler_schedule_attempts_total", instance, result="scheduled"): values}

    def overcommitted(values: str, instance: str = "a") -> dict[str, str]:
        return {of("secondary_scheduler_overcommitted_nodes", instance, resource="cpu"): values}

    def rejections(values: str, instance: str = "a", scheduler: str = "own") -> dict[str, str]:
        labels = {"reason": "OutOfcpu", "scheduler": scheduler}
        return {of("secondary_scheduler_kubelet_rejections_total", instance, **labels): values}

    unschedulable, too_full, rejected = "PodsUnschedulable", "NodesOvercommitted", "PodsRejectedByKubelet"
    return [
        fires(unschedulable, "thirty fit nowhere", waiting(), 31, ("30", JOB, NAMESPACE), quiet_minutes=29),
        fires(
            unschedulable,
            "a few of many, and ever more",
            waiting(values="11+1x200") | placed("0+100x200"),
            31,
            ("73", JOB, NAMESPACE),
            quiet_minutes=29,
        ),
        quiet(unschedulable, "a few of many", waiting() | placed("0+100x200")),
        quiet(unschedulable, "a few are forgotten", waiting(values="9x200")),
        quiet(unschedulable, "a burst beside many", waiting(values="0x40 30x200") | placed("0+100x300")),
        quiet(unschedulable, "they get a node after twenty minutes", waiting(values="30x40 0x200")),
        quiet(
            unschedulable,
            "the leader changes every twenty minutes",
            waiting(values="30x40 stale") | waiting("b", "_x40 0x2 30x38 stale") | waiting("c", "_x82 0x2 30x36 0x9"),
        ),
        quiet(unschedulable, "others wait in other queues", {of("scheduler_pending_pods", queue="gated"): "9x200"}),
        quiet(unschedulable, "there are no pods", waiting(values="0x200")),
        fires(
            too_full,
            "two lack CPU",
            leads() | overcommitted("2x100"),
            11,
            ("2", "cpu", JOB, NAMESPACE),
            quiet_minutes=9,
            resource="cpu",
        ),
        quiet(too_full, "kubelets end the pods within a minute", leads() | overcommitted("0x9 4x2 0x200")),
        quiet(too_full, "a device plugin restarts", leads() | overcommitted("0x9 1x10 0x200")),
        quiet(
            too_full,
            "only for a replica that waits",
            leads() | overcommitted("0x200") | leads("b", "0x200") | overcommitted("2x200", "b"),
        ),
        quiet(too_full, "there are no pods", leads() | overcommitted("0x200")),
        fires(
            rejected,
            "the first one ever, seen by two replicas",
            rejections("0x9 1x100") | rejections("0x9 1x100", "b"),
            15,
            ("1", JOB, NAMESPACE, "OutOfcpu"),
            quiet_minutes=4,
            reason="OutOfcpu",
        ),
        quiet(
            rejected, "a rollout: the counter begins again", rejections("3x20 stale") | rejections("_x20 0x100", "b")
        ),
        quiet(rejected, "a container restarts, and its counter", rejections("3x20 0x100")),
        quiet(rejected, "one long ago", rejections("7x200")),
        quiet(rejected, "only pods of another scheduler", rejections("0x20 5x100", scheduler="other")),
        quiet(rejected, "there are no pods", rejections("0x200")),
    ]


def _objective() -> list[Case]:
    late = "PodsBoundLate"

    def bound(in_time: str, too_late: str = "0x200", attempt: str = "first") -> dict[str, str]:
        metric = "secondary_scheduler_pods_bound_total"
        values = {"false": in_time, "true": too_late}
        return {of(metric, pod_namespace="a", attempt=attempt, late=each): text for each, text in values.items()}

    return [
        fires(late, "one in three", bound("0+2x200", "0+1x200"), 10, ("66.67%", JOB, NAMESPACE), quiet_minutes=3),
        quiet(late, "one in two hundred", bound("0+200x200", "0+1x200")),
        quiet(late, "half of them, for a minute of an hour", bound("0+20x400", "0x200 0+10x2 20x198"), minutes=180),
        quiet(late, "they had to wait for room", bound("0+9x200") | bound("0+1x200", "0+9x200", "later")),
        quiet(late, "a handful", bound("0x200", "0+1x15 15x200")),
        quiet(late, "no pods", bound("0x200")),
    ]


def _shadow() -> list[Case]:
    """A trial: decisions that are compared, and those that are not."""
    alert = "ShadowNotCompared"

    def skipped(values: str, reason: str = "time", instance: str = "a") -> dict[str, str]:
        labels = {"profile": "online", "reason": reason}
        return {of("secondary_scheduler_shadow_skipped_total", instance, **labels): values}

    def compared(values: str, profile: str = "online") -> dict[str, str]:
        labels = {"profile": profile, "shadow": f"{profile}-shadow", "outcome": "sameNode"}
        return {of("secondary_scheduler_shadow_decisions_total", **labels): values}

    # Three within a scrape interval, over half an hour.
    values = ("180", "online", JOB, NAMESPACE)
    return [
        fires(
            alert,
            "its share of time is never enough",
            skipped("0+3x200"),
            65,
            values,
            quiet_minutes=29,
            profile="online",
        ),
        fires(
            alert,
            "another profile is compared",
            skipped("0+3x200", "error") | compared("0+1x200", "batch"),
            65,
            values,
            quiet_minutes=29,
            profile="online",
        ),
        quiet(alert, "some are compared", skipped("0+9x200") | compared("0+1x200"), 90),
        quiet(alert, "the sample leaves out all that there are", skipped("0+3x200", "sample"), 90),
        quiet(alert, "there are no pods", skipped("9x200"), 90),
        quiet(alert, "a storm of twenty minutes", skipped("0+9x40 360x160") | compared("7x42 7+1x158"), 90),
    ]


def _operator() -> list[Case]:
    instance = {"exported_namespace": "tenants", "name": "cluster"}

    def degraded(reason: str, values: str, pod: str = "o") -> dict[str, str]:
        return {of("secondary_scheduler_operator_degraded", pod, OPERATOR, reason=reason, **instance): values}

    def progressing(values: str, pod: str = "o") -> dict[str, str]:
        labels = {"condition": "Progressing", "status": "True"}
        return {of("secondary_scheduler_operator_condition", pod, OPERATOR, **labels, **instance): values}

    down, refused, stuck = "OperatorDown", "ConfigurationRefused", "RolloutStuck"
    place = tuple(instance.values())
    replaced = degraded("ConfigInvalid", "1x10 stale") | degraded("ConfigInvalid", "_x8 1x60", "p")
    up, up_again = of("up", "o", OPERATOR), of("up", "p", OPERATOR)
    return [
        fires(down, "there is no target", {of("up"): "1x60"}, 11, (NAMESPACE,), quiet_minutes=9),
        quiet(down, "it is replaced", {up: "1x20 stale", up_again: "_x24 1x200"}),
        quiet(down, "it serves no instance", {up: "1x200"}),
        fires(
            refused,
            "while the operator is replaced",
            replaced,
            11,
            (*place, "ConfigInvalid"),
            quiet_minutes=9,
            reason="ConfigInvalid",
            **instance,
        ),
        quiet(refused, "it is mended within five minutes", degraded("ConfigInvalid", "1x10 stale")),
        quiet(refused, "another reason, which is another alert", degraded("CanaryFailed", "1x200")),
        fires(
            "Degraded",
            "a canary fails every eight minutes",
            degraded("CanaryFailed", "1x10 stale _x5 1x10 stale _x5 1x10"),
            16,
            (*place, "CanaryFailed"),
            quiet_minutes=14,
            reason="CanaryFailed",
            **instance,
        ),
        quiet("Degraded", "a rollout: a container starts late", degraded("ContainerNotStarting", "_x9 1x4 stale")),
        quiet("Degraded", "a refused configuration, which is another alert", degraded("ConfigInvalid", "1x200")),
        fires(stuck, "for half an hour", progressing("1x100"), 31, place, quiet_minutes=29, **instance),
        quiet(stuck, "a rollout of ten minutes", progressing("0x9 1x20 0x200")),
        quiet(
            stuck, "it is Degraded, which is another alert", progressing("1x200") | degraded("ImageNotPulled", "1x200")
        ),
        quiet(stuck, "one rollout after another", progressing("1x30 0 1x30 0 1x30 0x9")),
    ]


CASES = [
    *_running(),
    *_certificates(),
    *_load(),
    *_bindings(),
    *_attempts(),
    *_slow(),
    *_nodes(),
    *_objective(),
    *_shadow(),
    *_operator(),
]
