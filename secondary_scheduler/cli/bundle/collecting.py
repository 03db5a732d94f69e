"""Reads what belongs to an installation, and puts the parts of a bundle together."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from scheduler import __version__
from scheduler.catalog import CANARY_SUFFIX, operand_name, rebalancer_name
from scheduler.config import redacted
from scheduler.kube.client import BadRequest, ClientConfig, Credentials, KubeError, NotFound, SyncConnection, api_path
from scheduler.operand import CONFIG_KEY
from secondary_scheduler.cli.bundle.archive import README, Members, readme
from secondary_scheduler.cli.bundle.redaction import MAX_SECRETS, KnownSecrets, Redaction
from secondary_scheduler.cli.errors import CommandError, InputError, explained
from secondary_scheduler.cli.installedconfigurations import keep_configuration
from secondary_scheduler.cli.shapes import Each, MapShape, Table, scalars
from secondary_scheduler.clusterstatus.document import live_status, schedulers_to_ask
from secondary_scheduler.clusterstatus.installations import (
    KIND,
    MAX_INSTANCES,
    CallerLimits,
    Installations,
    installations_of,
    instances_of,
)
from secondary_scheduler.clusterstatus.installed import is_schedulers, role_of
from secondary_scheduler.clusterstatus.listing import list_items, read_object
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerPod
from secondary_scheduler.kubeobjects import KubeObject, name_of, part, parts
from secondary_scheduler.yamltext import documents, dump_yaml

_TIMEOUT: Final = 20.0
_SECONDS: Final = 300.0
"""After which nothing more is asked: an API server that answers slowly must not hold the user up for hours."""
_MAX_LISTED: Final = 2000
"""Pods and Events of the namespace that are looked at."""
_MAX_PODS, _MAX_EVENTS, _MAX_DECISIONS, _MAX_PROBLEMS = 100, 500, 100, 500
_BYTES, _DATA_BYTES, _LOG_BYTES = 64 << 20, 4 << 20, 1 << 20
"""Of the archive, of one file of data, of one log."""
_READ_BYTES, _READ_LINES = 4 << 20, 10_000
"""Read of one log at most; the client's limit for an answer is twice that."""
_ASKED: Final = {
    "/debug/decisions": "get on the path /debug/decisions (nonResourceURLs)",
    "/debug/queue": "to list pods in all namespaces",
}
"""Paths of a leader's port, and the right that each needs."""
_STATE: Final = Table(MapShape(scalars("reason", "message", "exitCode", "signal", "startedAt", "finishedAt")))
_CONTAINERS: Final = Each(
    MapShape({**scalars("name", "image", "imageID", "ready", "restartCount"), "state": _STATE, "lastState": _STATE})
)
_STATUS: Final = {"initContainerStatuses": _CONTAINERS, "containerStatuses": _CONTAINERS}
_POD: Final = MapShape(
    {
        "metadata": MapShape(scalars("name")),
        "spec": MapShape(scalars("nodeName")),
        "status": MapShape({**scalars("phase", "reason", "message"), **_STATUS}),
    }
)
_EVENT: Final = MapShape(
    {
        "involvedObject": MapShape(scalars("kind", "name", "fieldPath")),
        **scalars("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime"),
    }
)
_KINDS: Final = (KIND, "Deployment", "ReplicaSet", "Pod", "Lease")
"""Whose Events are of interest."""
_GENERATED: Final = "(?:-[bcdfghjklmnpqrstvwxz2456789]{1,10}){0,2}"
"""What a ReplicaSet and a pod have behind their Deployment's name; these letters make no words."""
T = TypeVar("T")


@dataclass
class BundleCollector:
    """Collects one bundle.

    Attributes:
        config: the connection.
        asker: whose token the schedulers see; None: the user's own.
        namespace: of operator and schedulers. No scheduler elsewhere sees a token.
        created: when, for README.txt.
        say: shows a line.
        since_seconds: how old lines of logs may be; None for any age.
        problems: why a part is missing, or what of it is; a line each.
    """

    config: ClientConfig
    asker: ClientConfig | None
    namespace: str
    created: str
    say: Callable[[str], None]
    since_seconds: int | None = None
    clock: Callable[[], float] = time.monotonic
    problems: list[str] = field(default_factory=list)
    members: Members = field(default_factory=lambda: Members(_BYTES))
    _redaction: Redaction = field(default_factory=Redaction)
    _end: float = 0.0

    def collect(self) -> Members:
        """Read everything and return the files.

        Raises:
            KubeError: what `status` reads cannot be read.
        """
        self._end = self.clock() + _SECONDS
        connection = SyncConnection(self.config, timeout=_TIMEOUT, user_agent="secondary-scheduler/bundle")
        try:
            self._collect(connection)
        finally:
            connection.close()
        # A message of the API server may quote what was sent.
        problems = self._redaction.text("".join(f"{line}\n" for line in self.problems) or "Everything was read.\n")
        closing = {"problems.txt": problems.encode("utf-8", "replace")}
        self.members.contents |= {**closing, README: readme(self.namespace, self.created, __version__)}
        return self.members

    def _collect(self, connection: SyncConnection) -> None:
        limits = CallerLimits()
        read = installations_of(self.config, self.namespace, limits, everywhere=False, command="bundle")
        leases = [instance.lease for instance in instances_of(read) if instance.lease]
        names = {*_deployments(read), *map(name_of, (*leases, *read.resources))}
        own = re.compile(f"(?:{'|'.join(map(re.escape, sorted(names)))}){_GENERATED}(?:-lock)?")
        pods = self._list(connection, "pods", lambda pod: bool(role_of(pod) or own.fullmatch(name_of(pod))), _MAX_PODS)
        about = {*map(name_of, pods)}

        def is_about(event: KubeObject) -> bool:
            name = str(part(event, "involvedObject").get("name"))
            return part(event, "involvedObject").get("kind") in _KINDS and bool(name in about or own.fullmatch(name))

        events = self._list(connection, "events", is_about, _MAX_EVENTS)
        config_maps = self._configurations(connection, read)
        configurations = {path: _parsed(config_map) for path, config_map in config_maps.items()}
        known_secrets = KnownSecrets()
        for credential in (*_credentials(self.config), *(_credentials(self.asker) if self.asker else ())):
            known_secrets.add(credential)
        deployments = [component.deployment for component in read.components]
        raw = (*read.resources, *deployments, *leases, *pods, *events, *config_maps.values(), *configurations.values())
        for content in raw:
            known_secrets.add_object(content)
        images = {str(image.get("image")) for pod in pods for image in parts(pod, "spec", "containers")}
        images |= {deployed.component.image for deployed in read.components}
        known_secrets.spare({self.namespace, *names, *about, *images})
        secrets = known_secrets.secrets()
        if len(secrets) > MAX_SECRETS:
            # What the API server said so far is not redacted.
            self.problems = [f"everything: left out, there are more than {MAX_SECRETS} values to redact"]
            return
        self._redaction = Redaction(secrets)
        versions = {"client": __version__, "kubernetes": read.kubernetes, "openshift": read.openshift or None}
        self._add_data(("versions.yaml",), {**versions, "pods": [_POD.keep(pod) for pod in pods]})
        self._add_data(("events.yaml",), [_EVENT.keep(event) for event in events])
        for path, parsed in configurations.items():
            if parsed is None:
                self._note("/".join(path), f"{CONFIG_KEY} is missing or not valid YAML: `validate` says where")
            else:
                self._add_data(path, keep_configuration(parsed))
        self._add_logs(connection, pods)
        document = live_status(self.config, read, limits, self.namespace, self.asker)
        for line in document.not_shown:
            self._note("status", line)
        self._add_data(("status.yaml",), msgspec.to_builtins(document))
        self._add_answers(read)

    def _list(
        self, connection: SyncConnection, plural: str, is_wanted: Callable[[KubeObject], bool], most: int
    ) -> list[KubeObject]:
        """The newest objects of a kind that are wanted; none where they cannot be read."""
        path = api_path("v1", plural, namespace=self.namespace)
        items = self._ask(plural, lambda: list(list_items(connection, path, limit=_MAX_LISTED + 1))) or []
        if len(items) > _MAX_LISTED:
            self._note(plural, f"there are more than {_MAX_LISTED}; the rest was not looked at")
        objects = sorted(filter(is_wanted, items[:_MAX_LISTED]), key=_time_of)
        if len(objects) > most:
            self._note(plural, f"{len(objects)} belong to the installation; the newest {most} are here")
        return objects[-most:]

    def _configurations(
        self, connection: SyncConnection, read: Installations
    ) -> dict[tuple[str, str, str], KubeObject]:
        """The ConfigMaps by the paths of their files: those that schedulers mount, of which `read` has a key, and those
        that SecondarySchedulers name."""
        folder, config_maps = "configurations", {}
        for place, text in read.configurations.items():
            config_maps[folder, "running", f"{place[1]}.yaml"] = {"data": {CONFIG_KEY: text}}
        wanted = {str(part(resource, "spec").get("schedulerConfig") or "") for resource in read.resources} - {""}
        for name in sorted(wanted)[:MAX_INSTANCES]:
            path = (folder, "wanted", f"{name}.yaml")

            def get_config_map(name: str = name) -> KubeObject:
                source = api_path("v1", "configmaps", namespace=self.namespace, name=name)
                return read_object(connection.get(source), source)

            if (config_map := self._ask("/".join(path), get_config_map)) is not None:
                config_maps[path] = config_map
        return config_maps

    def _add_logs(self, connection: SyncConnection, pods: Iterable[KubeObject]) -> None:
        for pod in pods:
            statuses = (*parts(pod, "status", "initContainerStatuses"), *parts(pod, "status", "containerStatuses"))
            ended = (status for status in statuses if status.get("restartCount") or status.get("lastState"))
            again = {str(status.get("name")) for status in ended}
            for spec in (*parts(pod, "spec", "initContainers"), *parts(pod, "spec", "containers")):
                container = str(spec.get("name"))
                for previous in (False, True) if container in again else (False,):
                    self._add_log(connection, name_of(pod), container, previous=previous)

    def _add_log(self, connection: SyncConnection, pod: str, container: str, *, previous: bool) -> None:
        path = ("logs", pod, f"{container}{'.previous' if previous else ''}.log")
        params: dict[str, str | int] = {"container": container, "tailLines": _READ_LINES, "limitBytes": _READ_BYTES}
        if previous:
            params["previous"] = "true"  # how a container ended is worth knowing whenever it was
        elif self.since_seconds is not None:
            params["sinceSeconds"] = self.since_seconds

        def read() -> bytes:
            source = api_path("v1", "pods", namespace=self.namespace, name=pod, subresource="log")
            try:
                return connection.get(source, params)
            except (BadRequest, NotFound):
                if previous:
                    return b""  # it is gone
                raise

        if log := self._ask("/".join(path), read):
            self._add(path, self._redaction.text(whole_lines(log).decode("utf-8", "replace")))

    def _add_answers(self, read: Installations) -> None:
        ours = [instance for instance in instances_of(read) if instance.lease and is_schedulers(instance.lease)]
        schedulers = schedulers_to_ask(self.config, ours, self.namespace, self.asker)
        if not schedulers:
            self._note("explain", "none of our schedulers is seen to lead here, so that none was asked")
        for scheduler in schedulers.values():
            for path, right in _ASKED.items():
                self._add_answer(scheduler, path, right)

    def _add_answer(self, scheduler: SchedulerPod, path: str, right: str) -> None:
        file = ("explain", scheduler.name, f"{path.rpartition('/')[2]}.json")

        def add() -> None:
            # As it is: what another version says of itself is worth having, too.
            answer = asyncio.run(scheduler.get(path, {"limit": str(_MAX_DECISIONS)}))
            if answer.status != 200:
                raise CommandError(answer.refusal(right, "it does not serve this"))
            self._add_data(file, json.loads(answer.body))

        self._ask("/".join(file), add)

    def _ask(self, subject: str, read: Callable[[], T]) -> T | None:
        """What a request returns that may fail for itself; None, and a problem, where it fails."""
        if self.clock() >= self._end:
            self._note(subject, f"not read: {_SECONDS:.0f} s were over")
            return None
        try:
            return read()
        except KubeError as error:
            self._note(subject, f"not read: {explained(error)}")
        except (CommandError, ValueError, RecursionError) as error:
            # Whoever writes a SecondaryScheduler may name a ConfigMap `..`, and a pod that leads may answer anything.
            self._note(subject, f"not read: {error}")
        return None

    def _add_data(self, path: tuple[str, ...], content: Any) -> None:
        data = self._redaction.data(redacted(content))
        is_yaml = path[-1].endswith(".yaml")
        text = dump_yaml(data).decode() if is_yaml else json.dumps(data, indent=1, ensure_ascii=False) + "\n"
        if len(text) > _DATA_BYTES:
            self._note("/".join(path), f"left out, larger than {_DATA_BYTES >> 20} MiB")
        else:
            self._add(path, text)

    def _add(self, path: tuple[str, ...], text: str) -> None:
        # Names of objects are text like any other.
        safe, content = [self._redaction.text(name) for name in path], text.encode("utf-8", "replace")
        if self.members.add(*safe, content=content):
            self.say(f"{'/'.join(safe)}: {-(-len(content) // 1024)} KiB")
        else:
            self._note("/".join(path), f"left out, the archive would be larger than {_BYTES >> 20} MiB")

    def _note(self, subject: str, reason: str) -> None:
        line = f"{subject}: {' '.join(reason.split())}"
        if line not in self.problems and len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(line)


def whole_lines(log: bytes, most: int = _LOG_BYTES, read: int = _READ_BYTES) -> bytes:
    """The last whole lines of a log, `most` bytes at most; `read`: bytes after which it was cut off.

    A line of which a part is missing could hold half of a secret, which nothing would recognise.
    """
    if len(log) >= read:
        log = log[: log.rfind(b"\n") + 1]
    return log if len(log) <= most else log[-most:].partition(b"\n")[2]


def _deployments(read: Installations) -> Iterator[str]:
    """The names of the Deployments of operators and schedulers, and of what an operator makes beside a scheduler."""
    yield from (deployed.component.name for deployed in read.components)
    for resource in read.resources:
        operand = operand_name(name_of(resource))
        yield from (operand, f"{operand}{CANARY_SUFFIX}", rebalancer_name(operand))


def _time_of(obj: KubeObject) -> str:
    times = (obj.get("lastTimestamp"), obj.get("eventTime"), part(obj, "metadata").get("creationTimestamp"))
    return next((str(time) for time in times if time), "")


def _parsed(config_map: KubeObject) -> Any:
    """The data of a configuration; None where there is none."""
    text = str(part(config_map, "data").get(CONFIG_KEY) or "")
    try:
        contents = [document.content for document in documents(text.encode(), CONFIG_KEY)]
    except (InputError, RecursionError, ValueError):
        return None
    return contents[0] if len(contents) == 1 and isinstance(contents[0], dict) else None


def _credentials(config: ClientConfig) -> Iterator[str]:
    authorization = Credentials(config).authorization()
    if authorization:
        yield authorization.removeprefix("Bearer ")
    for content in (config.token, config.key_data, config.cert_data):
        if content:
            yield content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    for file in (config.key_file, config.cert_file):
        if file is not None:
            yield file.read_text(encoding="utf-8", errors="replace")
