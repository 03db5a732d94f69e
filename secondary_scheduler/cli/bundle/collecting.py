"""Reads the parts of a bundle one after another; each is reduced and redacted before the next one is read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scheduler import __version__
from scheduler.kube.client import ClientConfig, Credentials, KubeError, SyncConnection
from scheduler.operand import CONFIG_KEY, SECURE_PORT
from secondary_scheduler.cli.bundle import answering
from secondary_scheduler.cli.bundle.archive import README, Members
from secondary_scheduler.cli.bundle.explaining import readme
from secondary_scheduler.cli.bundle.keeping import command_line, keep_object
from secondary_scheduler.cli.bundle.problems import Problems, Right
from secondary_scheduler.cli.bundle.reading import Reader, was_cut
from secondary_scheduler.cli.bundle.redaction import MOST_SECRETS, KnownSecrets, Redaction
from secondary_scheduler.cli.bundle.selecting import (
    configuration_names,
    containers_of,
    events_about,
    name_of,
    own_deployments,
    own_leases,
    owned_by,
    restarted,
)
from secondary_scheduler.cli.errors import CommandError, InputError
from secondary_scheduler.cli.keptconfiguration import keep_configuration
from secondary_scheduler.cli.snapshotfile import take_snapshot
from secondary_scheduler.clusterstatus.customresource import API_VERSION, KIND
from secondary_scheduler.clusterstatus.forwarding import Answer, get
from secondary_scheduler.clusterstatus.leaders import leading_pods
from secondary_scheduler.clusterstatus.listing import part, parts, read_object
from secondary_scheduler.yamltext import documents, dump_yaml

_TIMEOUT: Final = 20.0
_MOST_LISTED: Final = 2000
"""Objects of a kind that are looked at."""
_MOST_KEPT: Final = 100
"""Objects of a kind, but for Events, that go into the archive."""
_OBJECT_BYTES: Final = 256 << 10
_EVENT_BYTES: Final = 2 << 20
_LOG_BYTES: Final = 1 << 20
_ANSWER_BYTES: Final = 4 << 20
_BYTES: Final = 64 << 20
_SNAPSHOT_BYTES: Final = 256 << 20
_SUFFIX: Final = 100
"""Characters of an object's name in the name of its file, so that the ending is never cut off."""
Json = dict[str, Any]
Say = Callable[[str], None]
Ask = Callable[[str, str], Answer]


@dataclass(frozen=True)
class Objects:
    """What the API server has of an installation, as it was read."""

    kept: dict[str, list[Json]]
    configurations: list[Json]
    events: list[Json]

    def all(self) -> Iterable[Json]:
        """Every object."""
        for listed in self.kept.values():
            yield from listed
        yield from (*self.configurations, *self.events)


@dataclass
class Collector:
    """Collects one bundle.

    Attributes:
        config: the connection.
        namespace: of operator and schedulers.
        time: of the bundle, for README.txt.
        say: shows a line.
        since_seconds: how old lines of logs may be; None for any age.
        snapshot: whether a snapshot of the cluster is part of it.
        ask: GET of a path of a scheduler's port, given its pod; by default through the API server.
    """

    config: ClientConfig
    namespace: str
    time: str
    say: Say
    since_seconds: int | None = None
    snapshot: bool = False
    ask: Ask | None = None
    problems: Problems = field(default_factory=Problems)
    members: Members = field(default_factory=lambda: Members(_BYTES))
    _cut: set[str] = field(default_factory=set)
    _redaction: Redaction = field(default_factory=Redaction)

    def collect(self) -> Members:
        """Read everything and return the files.

        Raises:
            KubeError: the API server does not answer, or does not know the user.
        """
        connection = SyncConnection(self.config, timeout=_TIMEOUT, user_agent="secondary-scheduler/bundle")
        try:
            kubernetes = self._kubernetes_version(connection)
            reader = Reader(connection, self.namespace, self.problems)
            objects = self._read_objects(reader)
            secrets = self._secrets(objects)
            if len(secrets) > MOST_SECRETS:
                self.problems.add("everything", f"left out, there are more than {MOST_SECRETS} values to redact")
                objects = Objects({}, [], [])
            self._redaction = Redaction(secrets)
            self._add_versions(kubernetes, objects)
            self._add_objects(objects)
            self._add_logs(reader, objects.kept.get("pods", []))
            if len(secrets) <= MOST_SECRETS:
                self._add_answers(reader, connection)
                if self.snapshot and reader.may_ask("snapshot"):
                    self._add_snapshot()
        finally:
            connection.close()
        self._add_closing_files()
        return self.members

    def _kubernetes_version(self, connection: SyncConnection) -> str:
        from scheduler.kube.client import Forbidden, NotFound

        try:
            return str(read_object(connection.get("/version"), "/version").get("gitVersion") or "unknown")
        except (Forbidden, NotFound) as error:
            self.problems.add_error("version of Kubernetes", error, Right("get", "/version"))
            return "unknown"

    def _read_objects(self, reader: Reader) -> Objects:
        schedulers = reader.items(KIND, API_VERSION, "secondaryschedulers", _MOST_LISTED)
        deployments = own_deployments(reader.items("Deployment", "apps/v1", "deployments", _MOST_LISTED))
        replica_sets = owned_by(reader.items("ReplicaSet", "apps/v1", "replicasets", _MOST_LISTED), deployments)
        pods = owned_by(reader.items("Pod", "v1", "pods", _MOST_LISTED), replica_sets)
        leases = own_leases(reader.items("Lease", "coordination.k8s.io/v1", "leases", _MOST_LISTED), deployments)
        kept = {
            "secondaryschedulers": schedulers,
            "deployments": deployments,
            "replicasets": replica_sets,
            "pods": pods,
            "leases": leases,
        }
        for plural, listed in kept.items():
            if len(listed) > _MOST_KEPT:
                self.problems.add(plural, f"{len(listed)} belong to the installation; {_MOST_KEPT} of them are here")
                kept[plural] = sorted(listed, key=_creation)[-_MOST_KEPT:]
        names = configuration_names(kept["secondaryschedulers"], [*kept["deployments"], *kept["pods"]])[:_MOST_KEPT]
        config_maps = [config_map for name in names if (config_map := reader.config_map(name)) is not None]
        known = [*(each for listed in kept.values() for each in listed), *config_maps]
        events = events_about(reader.items("Event", "v1", "events", _MOST_LISTED), known)
        return Objects(kept, config_maps, events)

    def _secrets(self, objects: Objects) -> list[str]:
        """Values to take out of every text."""
        known = KnownSecrets(is_known_flag=command_line().knows)
        for credential in _credentials(self.config):
            known.add(credential)
        for raw in objects.all():
            known.add_object(raw)
        for config_map in objects.configurations:
            parsed = _parsed(_config_text(config_map))
            if parsed is not None:
                known.add_object(parsed)
        known.spare({self.namespace, *map(name_of, objects.all()), *_images(objects)})
        return known.secrets()

    def _add_versions(self, kubernetes: str, objects: Objects) -> None:
        images = [
            {"kind": each["kind"], "name": name_of(each), "image": image}
            for each in objects.kept.get("deployments", [])
            for image in _images_of(each)
        ]
        running = [
            {"pod": name_of(pod), "image": _text(status.get("image")), "imageID": _text(status.get("imageID"))}
            for pod in objects.kept.get("pods", [])
            for status in parts(pod, "status", "containerStatuses")
        ]
        content = {"client": __version__, "kubernetes": kubernetes, "images": images, "running": running}
        self._add_data(("versions.yaml",), content, _OBJECT_BYTES)
        self._tell("versions.yaml")

    def _add_objects(self, objects: Objects) -> None:
        for plural, listed in objects.kept.items():
            for each in sorted(listed, key=name_of):
                path = (plural, f"{name_of(each)[:_SUFFIX]}.yaml")
                self._add_data(path, keep_object(each["kind"], each), _OBJECT_BYTES)
            self._tell(plural)
        for config_map in objects.configurations:
            name = name_of(config_map)
            content = keep_object("ConfigMap", config_map)
            parsed = _parsed(_config_text(config_map))
            if parsed is None:
                self.problems.add(
                    f"configuration {name}", f"its {CONFIG_KEY} is missing or not valid YAML: `validate` says where"
                )
            else:
                content[CONFIG_KEY] = keep_configuration(parsed)
            self._add_data(("configurations", f"{name[:_SUFFIX]}.yaml"), content, _OBJECT_BYTES)
        self._tell("configurations")
        if objects.events:
            events = [keep_object("Event", event) for event in objects.events]
            # The newest are the last.
            while not self._fits(events) and events:
                events = events[len(events) // 2 + 1 :]
                self._cut.add("events.yaml")
            self._add_data(("events.yaml",), events, _EVENT_BYTES)
        self._tell("events.yaml")

    def _fits(self, events: list[Json]) -> bool:
        return len(json.dumps(events)) <= _EVENT_BYTES // 2

    def _add_logs(self, reader: Reader, pods: list[Json]) -> None:
        for pod in sorted(pods, key=name_of):
            again = restarted(pod)
            for container in containers_of(pod):
                for previous in (False, *((True,) if container in again else ())):
                    log = reader.log(name_of(pod), container, previous=previous, since_seconds=self.since_seconds)
                    if log:
                        ending = ".previous.log" if previous else ".log"
                        path = ("logs", name_of(pod), f"{container[:_SUFFIX]}{ending}")
                        self._add_text(path, tail(log, _LOG_BYTES, is_cut=was_cut(log)), len(log))
        self._tell("logs")

    def _add_answers(self, reader: Reader, connection: SyncConnection) -> None:
        try:
            pods = leading_pods(connection, self.namespace) if reader.may_ask("schedulers") else []
        except KubeError as error:
            place = f" in namespace {self.namespace}"
            self.problems.add_error("schedulers", error, Right("list", "leases.coordination.k8s.io", place))
            pods = []
        else:
            if not pods:
                self.problems.add("schedulers", "none of ours leads here, so that none was asked")
        ask = self.ask or self._ask_through_api_server
        for pod in pods:
            for page in answering.PAGES:
                if not reader.may_ask(f"schedulers/{pod}/{page.name}"):
                    break
                try:
                    answer = ask(pod, page.path)
                except CommandError as error:
                    self.problems.add(f"schedulers/{pod}", str(error))
                    break
                if answering.is_absent(answer, page):
                    continue
                if problem := answering.problem_of(answer, page):
                    self.problems.add(f"schedulers/{pod}/{page.name}", problem)
                else:
                    kept = page.keep(answer.body)
                    self._add_text(("schedulers", pod, page.name), tail(kept, _ANSWER_BYTES, is_cut=False), len(kept))
        self._tell("schedulers")

    def _ask_through_api_server(self, pod: str, path: str) -> Answer:
        path, _, query = path.partition("?")
        return get(self.config, self.namespace, pod, SECURE_PORT, path, {query: ""} if query else {})

    def _add_snapshot(self) -> None:
        with tempfile.TemporaryDirectory(prefix="bundle-") as directory:
            file = Path(directory) / "snapshot.json"
            try:
                take_snapshot(
                    self.config, None, file, as_yaml=False, say=lambda text: self.problems.add("snapshot", text)
                )
            except KubeError as error:
                self.problems.add("snapshot", f"not taken, it needs to list nodes and pods of the cluster: {error}")
                return
            if file.stat().st_size > _SNAPSHOT_BYTES:
                self.problems.add("snapshot", "larger than 256 MiB: take it with the command `snapshot`")
                return
            content = self._redacted_lines(file)
        self.members.make_room(len(content))
        self.members.add("snapshot.json", content=content)
        self._tell("snapshot.json")

    def _redacted_lines(self, file: Path) -> bytes:
        """A snapshot, which has one object in a line, still as valid JSON."""
        lines = []
        with file.open(encoding="utf-8") as snapshot:
            for line in snapshot:
                data = line.rstrip("\n")
                if data.startswith('{"apiVersion":"v1","kind":"List"') or data == "]}":
                    lines.append(data)
                    continue
                comma = "," if data.endswith(",") else ""
                content = self._redaction.data(json.loads(data.removesuffix(",")))
                lines.append(json.dumps(content, separators=(",", ":"), ensure_ascii=False) + comma)
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")

    def _add_data(self, path: tuple[str, ...], content: Any, most: int) -> None:
        encoded = dump_yaml(self._redaction.data(content))
        if len(encoded) > most:
            self.problems.add("/".join(path), f"left out, larger than {most >> 10} KiB")
        else:
            self._add(path, encoded)

    def _add_text(self, path: tuple[str, ...], content: bytes, of: int) -> None:
        redacted = self._redaction.text(content.decode("utf-8", "replace")).encode("utf-8", "replace")
        if self._add(path, redacted) and len(content) < of:
            self._cut.add("/".join(path))

    def _add(self, path: tuple[str, ...], content: bytes) -> bool:
        # Names of objects are text like any other.
        added = self.members.add(*map(self._redaction.text, path), content=content)
        if not added:
            self.problems.add("/".join(path), f"left out, the archive would be larger than {_BYTES >> 20} MiB")
        return added

    def _add_closing_files(self) -> None:
        # A message of the API server may quote what was sent.
        problems = self._redaction.text(self.problems.text()).encode()
        self.members.make_room(len(problems))
        self.members.add("problems.txt", content=problems)
        text = readme(
            self.namespace,
            self.time,
            __version__,
            {name: len(content) for name, content in self.members.contents.items()},
            self._cut,
        ).encode()
        self.members.make_room(len(text))
        self.members.add(README, content=text)

    def _tell(self, folder: str) -> None:
        sizes = self.members.below(folder)
        files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
        self.say(f"{folder}: {files}, {-(-sum(sizes.values()) // 1024)} KiB")


def tail(content: bytes, most: int, *, is_cut: bool) -> bytes:
    """The last whole lines of a text; `is_cut`: its last line may not be whole.

    A line of which a part is missing could hold half of a secret, which nothing would recognise.
    """
    if is_cut:
        content = content[: content.rfind(b"\n") + 1]
    if len(content) <= most:
        return content
    rest = content[-most:]
    return rest[rest.find(b"\n") + 1 :] if b"\n" in rest else b""


def _credentials(config: ClientConfig) -> Iterable[str]:
    authorization = Credentials(config).authorization()
    if authorization:
        yield authorization.removeprefix("Bearer ")
    for content in (config.token, config.key_data, config.cert_data):
        if content:
            yield content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    for file in (config.key_file, config.cert_file):
        if file is not None:
            yield file.read_text(encoding="utf-8", errors="replace")


def _config_text(config_map: Json) -> str:
    text = part(config_map, "data").get(CONFIG_KEY)
    return text if isinstance(text, str) else ""


def _parsed(text: str) -> Any:
    """The data of a configuration; None where there is none."""
    try:
        contents = [document.content for document in documents(text.encode(), CONFIG_KEY)]
    except (InputError, RecursionError, ValueError):
        return None
    return contents[0] if len(contents) == 1 and isinstance(contents[0], dict) else None


def _images(objects: Objects) -> Iterable[str]:
    for each in objects.all():
        yield from _images_of(each)


def _images_of(manifest: Json) -> Iterable[str]:
    for spec in (part(manifest, "spec", "template", "spec"), part(manifest, "spec")):
        for container in parts(spec, "containers"):
            image = container.get("image")
            if isinstance(image, str):
                yield image


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _creation(manifest: Json) -> str:
    return str(part(manifest, "metadata").get("creationTimestamp") or "")
