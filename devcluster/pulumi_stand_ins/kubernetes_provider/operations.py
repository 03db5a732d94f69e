"""The verbs on resources as the engine sees them: create, read, update, delete, with previews and failures."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from devcluster.pulumi_stand_ins.kubernetes_provider.dynamic_client import DynamicClient, explain
from devcluster.pulumi_stand_ins.kubernetes_provider.inputs import refreshed
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    ANNOTATION_FORCE,
    ANNOTATION_PROPAGATION,
    ANNOTATION_SKIP_AWAIT,
    Checkpoint,
    annotation,
    describe,
    identity,
    is_annotated_true,
    is_crd,
    metadata_of,
    namespaced_built_in,
    split_identity,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.readiness import Failed, Pending
from devcluster.pulumi_stand_ins.kubernetes_provider.settings import ProviderSettings
from devcluster.pulumi_stand_ins.kubernetes_provider.values import (
    UNKNOWN,
    Object,
    Path,
    contains_unknown,
    reveal,
    with_secrets_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.waiting import (
    Cancellation,
    NotReady,
    UserInterrupt,
    current_state,
    wait_timeout,
    wait_until_deleted,
    wait_until_ready,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.writes import FieldConflict, ObjectWriter, field_manager
from scheduler.kube.client import AlreadyExists, ApiError, Forbidden, KubeError, NotFound

_PROPAGATION = {"foreground": "Foreground", "background": "Background", "orphan": "Orphan"}
_SERVER_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


class OperationError(Exception):
    """The operation failed and what is in state still holds."""


class PartialFailure(Exception):
    """The object was written but is not as it should be; it must be kept in state with the reasons."""

    def __init__(self, identifier: str, outputs: Object, inputs: Object, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.identifier = identifier
        self.outputs = outputs
        self.inputs = inputs
        self.reasons = reasons


class ResourceReporter(Protocol):
    """Messages to the user about a resource."""

    def status(self, urn: str, message: str) -> None:
        """A line that the next one replaces."""

    def warning(self, urn: str, message: str) -> None:
        """A lasting warning."""


@dataclass(frozen=True)
class ConfiguredCluster:
    """The configured cluster; without `api`, `problem` says why it cannot be reached."""

    settings: ProviderSettings
    api: DynamicClient | None
    default_namespace: str = "default"
    problem: str = ""

    def is_namespaced(self, api_version: str, kind: str) -> bool:
        """Whether a kind lives in a namespace; a kind that is not served yet is assumed to."""
        namespaced = namespaced_built_in(api_version, kind)
        if namespaced is not None or self.api is None:
            return namespaced is not False
        try:
            return self.api.resource_type(api_version, kind).namespaced
        except KubeError:
            return True


class Operations:
    """The verbs on one cluster. Inputs and outputs carry secret marks; everything sent to the cluster is without."""

    def __init__(self, cluster: ConfiguredCluster, report: ResourceReporter, cancellation: Cancellation) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._report = report
        self._cancellation = cancellation

    def create(self, urn: str, inputs: Object, *, timeout: float, preview: bool) -> tuple[str, Object]:
        """Make the object and wait until it is ready; returns id and outputs.

        In a preview nothing is made: the server is asked in a dry run, and where it cannot say (values unknown, kind or
        namespace not there yet, no permission, no cluster) the inputs stand for the outputs.
        Raises OperationError when nothing was made, PartialFailure when it was made and is not ready.
        """
        plain: Object = reveal(inputs)
        if preview and (contains_unknown(plain) or self._cluster.api is None):
            return "", inputs
        api = self._api()
        manager = field_manager(plain)
        writer = ObjectWriter(api, self._cancellation)
        if preview:
            previewed = self._try_preview(
                plain, lambda: writer.preview_create(plain, manager, warn=self._warning_reporter(urn))
            )
            return "", inputs if previewed is None else Checkpoint(
                _without_server_fields(previewed), inputs, manager
            ).outputs()
        report_status = self._status_reporter(urn)
        try:
            if self._settings.upsert_existing_objects and metadata_of(plain).get("name"):
                force = self._force(plain)
                live = writer.upsert(
                    plain, manager, force=force, report_status=report_status, warn=self._warning_reporter(urn)
                )
            else:
                live = writer.create(plain, report_status=report_status, warn=self._warning_reporter(urn))
        except UserInterrupt:
            raise OperationError(f"creation of {describe(plain)} was interrupted by the user") from None
        except KubeError as error:
            raise OperationError(_failed_create(plain, error)) from error
        return identity(live), self._wait_for_outputs(urn, Checkpoint(live, inputs, manager), timeout, "created")

    def update(
        self, urn: str, old: Checkpoint, inputs: Object, *, ignore: Iterable[Path], timeout: float, preview: bool
    ) -> Object:
        """Bring the object from the checkpoint `old` to the new inputs, wait until it is ready, and return its outputs.

        `ignore` are the paths of ignoreChanges; `timeout` is that of customTimeouts in seconds, 0 without one. A
        preview only asks the server in a dry run, as in `create`. Raises OperationError or PartialFailure as `create`.
        """
        plain: Object = reveal(inputs)
        if preview and (contains_unknown(plain) or self._cluster.api is None):
            return inputs
        if self._cluster.api is None and self._settings.skip_update_unreachable:
            self._report.warning(urn, f"skipped: the cluster is unreachable: {self._cluster.problem}")
            return old.outputs()
        api = self._api()
        manager = field_manager(plain, old.field_manager)
        writer, force = ObjectWriter(api, self._cancellation), self._force(plain)
        ignored = list(ignore)

        def write() -> Object:
            warn = self._warning_reporter(urn)
            return writer.update(plain, manager, force=force, ignore=ignored, dry_run=preview, warn=warn)

        if preview:
            changed = self._try_preview(plain, write)
            return inputs if changed is None else replace(old, live=changed, inputs=inputs).outputs()
        try:
            live = write()
        except KubeError as error:
            raise self._refused(plain, replace(old, inputs=inputs, field_manager=manager), error) from error
        new = Checkpoint(live, inputs, manager, old.initial_api_version)
        return self._wait_for_outputs(urn, new, timeout, "updated")

    def read(self, urn: str, identifier: str, old: Checkpoint, kind: tuple[str, str]) -> tuple[str, Object, Object]:
        """The object as it is now: id (empty if gone), outputs and inputs. `kind` is (apiVersion, kind) of the type.

        The inputs keep their shape: what changed on the cluster at the same places shows, server-set fields do not.
        Raises PartialFailure for an object that state knows and that is not ready now.
        """
        if self._cluster.api is None and self._settings.delete_unreachable:
            self._report.warning(urn, f"dropped from state: the cluster is unreachable: {self._cluster.problem}")
            return "", {}, {}
        api = self._api()
        plain: Object = reveal(old.inputs)
        namespace, name = split_identity(identifier)
        reference: Object = {
            "apiVersion": plain.get("apiVersion", kind[0]),
            "kind": plain.get("kind", kind[1]),
            "metadata": {"namespace": namespace} if namespace else {},
        }
        try:
            live = api.get(reference, name)
        except NotFound:
            return "", {}, {}
        except KubeError as error:
            raise OperationError(f"cannot read {reference['kind']} {identifier}: {explain(error)}") from error
        inputs = with_secrets_of(refreshed(plain, live), old.inputs) if plain else _as_inputs(live)
        manager = old.field_manager or field_manager(live)
        outputs = Checkpoint(live, inputs, manager, old.initial_api_version).outputs()
        if plain:
            self._check_ready(api, live, identifier, outputs, inputs)
        return identifier, outputs, inputs

    def delete(self, urn: str, identifier: str, old: Checkpoint, *, timeout: float) -> None:
        """Delete and wait until the object and its finalizers are gone; so is one whose kind is no longer served."""
        if self._cluster.api is None and self._settings.delete_unreachable:
            self._report.warning(urn, f"dropped from state: the cluster is unreachable: {self._cluster.problem}")
            return
        api, live = self._api(), old.live
        name = split_identity(identifier)[1]
        propagation = annotation(live, ANNOTATION_PROPAGATION) or ""
        policy = _PROPAGATION.get(propagation.lower(), "Foreground")
        try:
            path = api.path(live, name)
            api.request("DELETE", path, body={"propagationPolicy": policy})
            if not is_annotated_true(reveal(old.inputs), ANNOTATION_SKIP_AWAIT):
                wait_until_deleted(
                    api,
                    live,
                    timeout_seconds=wait_timeout(live, timeout),
                    report_status=self._status_reporter(urn),
                    cancellation=self._cancellation,
                )
        except NotFound:
            pass
        except KubeError as error:
            raise OperationError(f"deletion of {describe(live)} failed: {explain(error)}") from error
        except NotReady as error:
            self._report.warning(urn, error.reasons[-1])
            raise OperationError(f"{describe(live)} was not deleted: {error}") from error
        if is_crd(live):
            api.forget_types()

    def _api(self) -> DynamicClient:
        if self._cluster.api is None:
            raise OperationError(f"configured Kubernetes cluster is unreachable: {self._cluster.problem}")
        return self._cluster.api

    def _refused(self, plain: Object, new: Checkpoint, error: KubeError) -> Exception:
        """A refused update is kept with the new inputs, as by the official provider: every later run tries it."""
        text = _failed_update(plain, error)
        try:
            live = self._api().get(plain, str(metadata_of(plain)["name"]))
        except KubeError:
            return OperationError(text)
        return PartialFailure(identity(live), replace(new, live=live).outputs(), new.inputs, [text])

    def _try_preview(self, plain: Object, ask: Callable[[], Object]) -> Object | None:
        """What a dry run answers, or None where the server cannot say."""
        try:
            return ask()
        except (Forbidden, NotFound):
            return None
        except ApiError as error:
            if "does not support dry run" in error.message:
                return None
            text = _conflict(plain, error) if isinstance(error, FieldConflict) else ""
            raise OperationError(text or f"preview of {describe(plain)} failed: {explain(error)}") from error
        except KubeError:
            return None

    def _wait_for_outputs(self, urn: str, checkpoint: Checkpoint, timeout: float, verb: str) -> Object:
        """Outputs once the object is ready.

        It exists by now. Whatever goes wrong here, even a fault of ours, must not lose it: state would not know of it,
        and the next run would find it in its way.
        """
        live = checkpoint.live
        try:
            api = self._api()
            if is_crd(live):
                api.forget_types()
            ready = wait_until_ready(
                api,
                live,
                timeout_seconds=wait_timeout(live, timeout),
                report_status=self._status_reporter(urn),
                cancellation=self._cancellation,
            )
            return replace(checkpoint, live=ready).outputs()
        except NotReady as error:
            live, reasons = error.live, error.reasons
        except Exception as error:
            reasons = [f"the stand-in provider failed while waiting: {type(error).__name__}: {error}"]
        first = f"{describe(live)} was {verb} but is not ready: {reasons[0]}"
        outputs = replace(checkpoint, live=live).outputs()
        raise PartialFailure(identity(live), outputs, checkpoint.inputs, [first, *reasons[1:]])

    def _check_ready(self, api: DynamicClient, live: Object, identifier: str, outputs: Object, inputs: Object) -> None:
        try:
            state = current_state(api, live)
        except ValueError:
            return  # a waitFor annotation of another tool, which we cannot read
        if isinstance(state, Pending | Failed):
            reasons = list(state.reasons) or [state.status] if isinstance(state, Pending) else list(state.reasons)
            raise PartialFailure(
                identifier, outputs, inputs, [f"{describe(live)} is not ready: {reasons[0]}", *reasons[1:]]
            )

    def _force(self, plain: Object) -> bool:
        return self._settings.enable_patch_force or is_annotated_true(plain, ANNOTATION_FORCE)

    def _status_reporter(self, urn: str) -> Callable[[str], None]:
        return lambda message: self._report.status(urn, message)

    def _warning_reporter(self, urn: str) -> Callable[[str], None]:
        def warn(message: str) -> None:
            if not (self._settings.suppress_deprecation_warnings and "deprecated" in message):
                self._report.warning(urn, message)

        return warn


def _without_server_fields(obj: Object) -> Object:
    """A dry run's answer without what the real object will have otherwise: unknown, so that nothing is built on it."""
    metadata = {key: value for key, value in metadata_of(obj).items() if key not in _SERVER_METADATA}
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "metadata": {**metadata, "uid": UNKNOWN, "resourceVersion": UNKNOWN}}


def _as_inputs(live: Object) -> Object:
    """Inputs for an object that no program made yet: all but what the server sets."""
    metadata = {key: value for key, value in metadata_of(live).items() if key not in _SERVER_METADATA}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}


def _failed_create(plain: Object, error: KubeError) -> str:
    if isinstance(error, AlreadyExists):
        return (
            f"{describe(plain)} already exists on the cluster; import it (`pulumi import`, or the option import_), "
            "or set upsertExistingObjects on the provider to take it over"
        )
    return f"creation of {describe(plain)} failed: {explain(error)}"


def _failed_update(plain: Object, error: KubeError) -> str:
    if isinstance(error, NotFound):
        return f"{describe(plain)} is no longer on the cluster; run `pulumi refresh`, then `pulumi up` creates it again"
    if isinstance(error, FieldConflict):
        return _conflict(plain, error)
    return f"update of {describe(plain)} failed: {explain(error)}"


def _conflict(plain: Object, error: FieldConflict) -> str:
    """In the official provider's words, which users look up."""
    reported = f'the Kubernetes API server reported that "{identity(plain)}" failed to fully initialize or become live'
    return f"{reported}: {error.message}"
