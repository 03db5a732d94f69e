"""Which functions may have the places that `tools.harmsites` finds. Lines are not kept here: they are found."""

from __future__ import annotations

from typing import Final, NamedTuple


class HarmFunction(NamedTuple):
    """A function through which harm goes.

    Attributes:
        place: file and function, `path::Class.method`.
        ways: the ways of `tools.harmsites` that it may have; none: others go through it.
        harm: what it can do.
        bound: what it does not do, and what sees to that.
    """

    place: str
    ways: tuple[str, ...]
    harm: str
    bound: str


_ENGINE, _CLIENT = "scheduler/engine", "scheduler/kube/client"
_LEASE = "the Lease is asked about right before the first byte"

WRITES: Final = (
    HarmFunction(
        f"{_ENGINE}/binding.py::Binder._post",
        ("write",),
        "binds a pod to a node",
        f"the pod's UID is in the Binding, so that no other pod of its name is bound; {_LEASE}",
    ),
    HarmFunction(
        f"{_ENGINE}/extenders.py::ExtenderEndpoint._request",
        ("write", "credential"),
        "sends pods and nodes, or a Binding, to an extender of the configuration",
        "the configuration's address only; no redirect; TLS is verified unless the configuration says otherwise",
    ),
    HarmFunction(
        f"{_ENGINE}/handle.py::EngineHandle.delete_pod",
        ("write",),
        "deletes a pod that is preempted",
        f"the pod's UID is the precondition; its own grace period; {_LEASE}",
    ),
    HarmFunction(
        f"{_ENGINE}/handle.py::EngineHandle.patch_pod",
        ("write",),
        "patches a pod: conditions, nomination, annotations of a plugin",
        f"the pod's UID is in the patch; {_LEASE}",
    ),
    HarmFunction(
        f"{_ENGINE}/handle.py::EngineHandle.patch_object",
        ("write",),
        "patches a claim, a volume or a PodGroup",
        f"UID and resourceVersion are in the patch; {_LEASE}",
    ),
    HarmFunction(
        f"{_ENGINE}/handle.py::EngineHandle.create_object",
        ("write",),
        "creates a ResourceClaim for extended resources",
        f"a kind that is watched; {_LEASE}",
    ),
    HarmFunction(
        f"{_ENGINE}/handle.py::EngineHandle.delete_object",
        ("write",),
        "deletes a ResourceClaim that it created",
        f"the UID is the precondition; {_LEASE}",
    ),
    HarmFunction(
        f"{_ENGINE}/handle.py::EngineHandle.write_refusal",
        (),
        "lets the writes above begin",
        "none without the Lease, none once the process stops",
    ),
    HarmFunction(
        f"{_ENGINE}/recorder.py::EventRecorder._write_one",
        ("write",),
        "creates an Event, or counts it up",
        "Events of our own names only; texts are cut; a failure is dropped",
    ),
    HarmFunction(
        "scheduler/kube/lease.py::LeaseElector._send",
        ("write",),
        "creates or replaces a Lease",
        "the Lease of the settings; with the resourceVersion that was read: no newer holder is overwritten",
    ),
    HarmFunction(
        "secondary_scheduler/operator/writer.py::Writer._set_finalizers",
        ("write",),
        "sets the finalizers of a SecondaryScheduler",
        "with the resourceVersion that was read; only while the operator leads",
    ),
    HarmFunction(
        "secondary_scheduler/operator/writer.py::Writer._patch",
        ("write",),
        "applies an object of an instance, Deployments and RBAC included",
        "server-side apply as its own field manager; what is applied is in the pure plan",
    ),
    HarmFunction(
        "secondary_scheduler/operator/writer.py::Writer._delete",
        ("write",),
        "deletes an object of an instance",
        "the UID is the precondition",
    ),
    HarmFunction(
        "secondary_scheduler/operator/writer.py::Writer.send_event",
        ("write",),
        "creates an Event about a SecondaryScheduler",
        "in the instance's namespace; the text is cut",
    ),
    HarmFunction(
        "secondary_scheduler/operator/groups/status.py::StatusController.reconcile",
        ("write",),
        "patches the status of a PodGroup or ElasticQuota",
        f"the status subresource only; UID and resourceVersion are in the patch; {_LEASE}",
    ),
    HarmFunction(
        "secondary_scheduler/rebalancer/live.py::LiveAccess.evict",
        ("write",),
        "evicts a pod",
        f"the Eviction API, so that PodDisruptionBudgets hold; asked once; {_LEASE}",
    ),
    HarmFunction(
        "secondary_scheduler/rebalancing/rules/evictions.py::eviction_of",
        (),
        "says which pod is evicted",
        "the pod's UID is the precondition; a pod without one is refused",
    ),
    HarmFunction(
        "secondary_scheduler/rebalancer/live.py::LiveAccess.save",
        ("write",),
        "applies the rebalancer's ConfigMap",
        f"its own name; the UID that was read, so that one made again is not taken for the old; {_LEASE}",
    ),
    HarmFunction(
        "secondary_scheduler/cli/fleet/gate.py::HealthGate._place_pod",
        ("write",),
        "creates the pod of `fleet`'s health gate, and deletes it",
        "a random name that it chose itself; the pod ends by itself",
    ),
    HarmFunction(
        "secondary_scheduler/cli/selftest/objects.py::OwnCluster.create",
        ("write",),
        "creates what `selftest` has announced",
        "names of one run; what was announced; RBAC lets users grant no more than they have",
    ),
    HarmFunction(
        "secondary_scheduler/cli/selftest/objects.py::OwnCluster._delete",
        ("write",),
        "deletes what `selftest` made",
        "pods of the run's namespace; cluster-scoped objects with label and prefix, the UID is the precondition",
    ),
    HarmFunction(
        "secondary_scheduler/cli/selftest/objects.py::OwnCluster._may",
        ("write",),
        "creates a SelfSubjectAccessReview",
        "changes nothing",
    ),
    HarmFunction(
        "secondary_scheduler/cli/optin/probing.py::ask",
        ("write",),
        "asks what admission makes of a pod",
        "`dryRun=All`: nothing is created",
    ),
    HarmFunction(
        "scheduler/observe/authorization.py::Authorizer._may_read",
        ("write",),
        "creates a SubjectAccessReview",
        "changes nothing; whatever is not `allowed` is refused",
    ),
)

CLIENT: Final = (
    HarmFunction(f"{_CLIENT}/http.py::KubeClient.post", ("write",), "POST", "`allowed` is handed on"),
    HarmFunction(f"{_CLIENT}/http.py::KubeClient.put", ("write",), "PUT", "no production code uses it"),
    HarmFunction(f"{_CLIENT}/http.py::KubeClient.patch", ("write",), "PATCH", "`allowed` is handed on"),
    HarmFunction(f"{_CLIENT}/http.py::KubeClient.delete", ("write",), "DELETE", "`allowed` is handed on"),
    HarmFunction(
        f"{_CLIENT}/http.py::KubeClient.request",
        (),
        "repeats what was refused with 401 or 429",
        "nothing else, and within the deadline",
    ),
    HarmFunction(
        f"{_CLIENT}/http.py::KubeClient._exchange",
        ("credential",),
        "sends a request with the client's credential",
        "to the configured server; says whether a failed write may have been carried out",
    ),
    HarmFunction(
        f"{_CLIENT}/http.py::KubeClient._ask",
        (),
        "puts it on a connection",
        "asks `allowed` last; a POST or PATCH is never sent twice",
    ),
    HarmFunction(
        f"{_CLIENT}/http.py::KubeClient._open_stream",
        ("credential",),
        "sends a watch with the client's credential",
        "GET only",
    ),
    HarmFunction(
        f"{_CLIENT}/http.py::KubeClient._failure",
        (),
        "says what a refusal is",
        "a redirect is one: it is never followed",
    ),
    HarmFunction(
        f"{_CLIENT}/http.py::KubeClient._target",
        (),
        "makes the request's path",
        "no blank and no line break: a name cannot become a second request",
    ),
    HarmFunction(
        f"{_CLIENT}/http.py::KubeClient._tls", ("credential",), "chooses the TLS context", "TLS for an https server"
    ),
    HarmFunction(
        f"{_CLIENT}/http.py::RequestWriter.write",
        ("credential",),
        "writes head and body, the credential in its header",
        "a credential with characters of no header is refused and not shown",
    ),
    HarmFunction(
        f"{_CLIENT}/pool.py::ServerAddress._connect",
        ("connection",),
        "opens a connection to the API server",
        "the configured address; its certificate is verified unless the kubeconfig says otherwise",
    ),
    HarmFunction(
        f"{_CLIENT}/sync.py::SyncConnection._exchange",
        ("write", "credential"),
        "as `KubeClient._exchange`, for threads",
        "one attempt; a redirect is not followed",
    ),
    HarmFunction(
        f"{_CLIENT}/sync.py::SyncConnection._open",
        ("connection", "credential"),
        "opens its connection",
        "the configured address; its certificate is verified unless the kubeconfig says otherwise",
    ),
    HarmFunction(f"{_CLIENT}/sync.py::SyncClient.request", ("write",), "a connection per thread", "–"),
    HarmFunction(
        "scheduler/observe/answers.py::SplitReviewClient.post",
        ("write",),
        "chooses the API server that reviews",
        "tokens go to the one for authentication only",
    ),
)

CREDENTIALS: Final = (
    HarmFunction(
        f"{_CLIENT}/credentials.py::Credentials.authorization",
        ("credential",),
        "makes the Authorization header of the API server",
        "a file that holds no token is an error, not an anonymous request",
    ),
    HarmFunction(
        f"{_CLIENT}/credentials.py::_load_pair",
        ("credential",),
        "loads the client's certificate and key",
        "into the TLS context only",
    ),
    HarmFunction(
        f"{_CLIENT}/tokens.py::review_token",
        ("write",),
        "sends a caller's token to the API server",
        "the API server of the client, in the body of a TokenReview",
    ),
    HarmFunction(
        f"{_CLIENT}/tokens.py::request_token",
        ("write",),
        "has a token of a ServiceAccount made",
        "for ten minutes at most by its callers; the command line only",
    ),
    HarmFunction(
        "scheduler/observe/authorization.py::Authorizer._ask",
        ("credential",),
        "has a visitor's token reviewed",
        "the audience must match; kept as a digest",
    ),
    HarmFunction(
        "scheduler/handover.py::Handover._is_known",
        ("credential",),
        "has another replica's token reviewed",
        "audience, account and pod must all match",
    ),
    HarmFunction(
        "scheduler/handover.py::Handover._ask",
        (),
        "shows its own token to the former leader",
        "a token for this purpose only, which is good nowhere else",
    ),
    HarmFunction(
        "scheduler/load/session.py::GuardedSession.request",
        ("write", "credential"),
        "sends the metric source's token",
        "only where the rules of the configuration allow it there; no redirect, no proxy, no `.netrc`",
    ),
    HarmFunction(
        "scheduler/observe/otlp.py::ExportSession.request",
        ("write",),
        "sends traces, with the headers of the environment",
        "no redirect, no proxy, no `.netrc`; errors do not show them",
    ),
    HarmFunction(
        f"{_ENGINE}/extenders.py::ExtenderEndpoint.ssl_context",
        ("credential",),
        "has the client certificate for an extender",
        "files of the configuration",
    ),
    HarmFunction(
        "scheduler/observe/endpoints.py::Endpoints._guard.guard",
        ("credential",),
        "takes a visitor's token at the scheduler's port",
        "no answer without a review; closed on every failure",
    ),
    HarmFunction(
        "secondary_scheduler/serving.py::_metrics_endpoint.expose",
        ("credential",),
        "takes a scraper's token at operator and rebalancer",
        "no answer without a review; closed on every failure",
    ),
    HarmFunction(
        "secondary_scheduler/page/site.py::_caller",
        ("credential",),
        "takes a visitor's token at the page",
        "of the header or of the session; never of an address",
    ),
    HarmFunction(
        "secondary_scheduler/page/running.py::as_visitor",
        ("credential",),
        "asks API server and scheduler in a visitor's name",
        "nothing of the page's own credentials is in it",
    ),
    HarmFunction(
        "secondary_scheduler/clusterstatus/schedulerclient.py::SchedulerPod.get",
        ("credential", "connection"),
        "opens a tunnel to a pod with the user's credential",
        "to the API server; the pod gets it in the tunnel (next line)",
    ),
    HarmFunction(
        "secondary_scheduler/clusterstatus/schedulerclient.py::_ask",
        ("credential", "connection"),
        "shows a token to the scheduler in a pod",
        "the pod's certificate is not verified; `--as-service-account` shows another token than the user's",
    ),
    HarmFunction(
        "secondary_scheduler/cli/selftest/objects.py::OwnCluster.token",
        ("credential",),
        "has a token of the self-test's own ServiceAccount made",
        "an hour; for the processes of the run, in a file that its user alone can read",
    ),
    HarmFunction(
        "secondary_scheduler/cli/connecting.py::asking_as",
        ("credential",),
        "asks in the name of a ServiceAccount",
        "`--as-service-account` only",
    ),
    HarmFunction(
        "secondary_scheduler/cli/preflight/openshift.py::bound_token",
        ("credential",),
        "has a token made for the metric source",
        "`preflight` on OpenShift only",
    ),
    HarmFunction(
        "secondary_scheduler/cli/preflight/openshift.py::secret_values",
        ("secret",),
        "reads the Secret with the metric source's token",
        "`preflight` only; errors do not show its content",
    ),
    HarmFunction(
        "secondary_scheduler/operator/caches.py::KindCache.__init__",
        ("secret",),
        "watches whether Secrets exist",
        "by name, and the content is not decoded",
    ),
    HarmFunction(
        "secondary_scheduler/operator/caches.py::Caches.__init__",
        ("secret",),
        "says which Secrets are watched",
        "those that a scheduler mounts (`--secrets`)",
    ),
    HarmFunction(
        "stacks/clusteraccess.py::ClusterReader.get",
        ("credential",),
        "reads the cluster in a preview, with the provider's credential",
        "GET only; no redirect",
    ),
    HarmFunction(
        "stacks/clusteraccess.py::_authorization",
        ("credential",),
        "makes the Authorization header of a preview",
        "what the kubeconfig says",
    ),
    HarmFunction(
        "stacks/clusteraccess.py::_tls",
        ("credential",),
        "loads the kubeconfig's certificate and key",
        "through a file that only its owner can read, for a moment",
    ),
)

PROGRAMS: Final = (
    HarmFunction(
        "secondary_scheduler/cli/selftest/instances.py::_Process.__init__",
        ("program",),
        "starts a scheduler of the self-test",
        "this program's own, or the file that `--scheduler-binary` names; no shell; it ends with the run",
    ),
    HarmFunction(
        "secondary_scheduler/cli/selftest/instances.py::_Process.summary",
        ("connection",),
        "reads the metrics of that scheduler",
        "127.0.0.1 and the port it was given; no credential is sent",
    ),
    HarmFunction(
        "secondary_scheduler/cli/fleet/process.py::run",
        ("program",),
        "runs pulumi for `fleet`",
        "an argument list, never a shell; ended with all that it started",
    ),
    HarmFunction(
        "secondary_scheduler/cli/render/command.py::_record",
        ("program",),
        "runs the Pulumi program without an engine for `render`",
        "an argument list; without an engine, so that nothing is created",
    ),
    HarmFunction(
        "secondary_scheduler/cli/render/stack.py::_decrypted",
        ("program",),
        "has pulumi decrypt a stack's secrets",
        "`--show-secrets` only",
    ),
    HarmFunction(
        "secondary_scheduler/cli/connecting.py::_Login.__init__",
        ("credential",),
        "runs the login program of the user's kubeconfig",
        "as kubectl does",
    ),
    HarmFunction(
        "secondary_scheduler/cli/connecting.py::_Login.renewing.renew",
        ("credential",),
        "runs it again before its token expires",
        "the token is in a file that only its owner can read",
    ),
    HarmFunction(
        "stacks/clusteraccess.py::ClusterReader._authenticated",
        ("program",),
        "runs the login program of the kubeconfig in a preview",
        "which the provider runs, too",
    ),
    HarmFunction(
        "stacks/applied.py::_run",
        ("program",),
        "runs `secondary-scheduler plan` in a preview",
        "an argument list; ended in time",
    ),
    HarmFunction(
        f"{_ENGINE}/extenders.py::ExtenderEndpoint._open",
        ("connection",),
        "has the connections to an extender",
        "no cookies",
    ),
    HarmFunction(
        "secondary_scheduler/cli/preflight/checks.py::check_connection",
        ("connection",),
        "connects to the metric source",
        "sends nothing",
    ),
    HarmFunction(
        "secondary_scheduler/cli/preflight/checks.py::check_certificate",
        ("connection",),
        "makes a TLS handshake with it",
        "sends nothing more",
    ),
    HarmFunction(
        "stacks/clusteraccess.py::ClusterReader._connection",
        ("connection",),
        "connects to the cluster in a preview",
        "the kubeconfig's server",
    ),
)

RBAC: Final = (
    HarmFunction(
        "secondary_scheduler/operator/reconcile/objects.py::lease_role",
        ("rbac",),
        "Role: the scheduler's Lease",
        "the Leases' names",
    ),
    HarmFunction(
        "secondary_scheduler/cli/selftest/objects.py::scaffold",
        ("rbac",),
        "Role, ClusterRole and bindings of the self-test",
        "the account of the run's own namespace; rules of the catalogue",
    ),
    HarmFunction(
        "secondary_scheduler/operator/reconcile/objects.py::lease_role_binding",
        ("rbac",),
        "RoleBinding of that Role",
        "the scheduler's account",
    ),
    HarmFunction(
        "secondary_scheduler/operator/reconcile/objects.py::cluster_role_binding",
        ("rbac",),
        "ClusterRoleBindings of the enabled plugins' roles",
        "RBAC lets the operator bind the bundled roles only",
    ),
    HarmFunction(
        "secondary_scheduler/operator/reconcile/rebalancer.py::_objects",
        ("rbac",),
        "Role and bindings of the rebalancer",
        "its own account; evictions only with the admission policy where the cluster has that",
    ),
    HarmFunction("scheduler/operand/objects.py::role_ref", ("rbac",), "refers to a Role", "–"),
    HarmFunction("scheduler/operand/objects.py::cluster_role_ref", ("rbac",), "refers to a ClusterRole", "–"),
    HarmFunction(
        "components/scheduler_roles.py::bundled_role", ("rbac",), "a ClusterRole of plugins", "rules of the catalogue"
    ),
    HarmFunction("components/scheduler_roles.py::SchedulerRoles._role", ("rbac",), "creates it", "–"),
    HarmFunction(
        "components/scheduler_roles.py::SchedulerRoles._binding", ("rbac",), "binds it where no operator does", "–"
    ),
    HarmFunction(
        "components/direct_scheduler.py::DirectScheduler._lease_role_and_binding",
        ("rbac",),
        "Role and RoleBinding: the scheduler's Lease, without an operator",
        "the Lease's name",
    ),
    HarmFunction("components/kube_object.py::cluster_role_binding", ("rbac",), "a ClusterRoleBinding", "–"),
    HarmFunction(
        "components/operator_install.py::OperatorInstall._cluster_role",
        ("rbac",),
        "the operator's ClusterRole",
        "names wherever RBAC allows names",
    ),
    HarmFunction(
        "components/operator_install.py::OperatorInstall._role",
        ("rbac",),
        "the operator's Role and RoleBinding in each namespace",
        "names wherever RBAC allows names",
    ),
    HarmFunction(
        "components/_operator_rules.py::namespace_rules",
        ("secret",),
        "grants the operator to read Secrets",
        "those that a scheduler mounts, by name",
    ),
    HarmFunction(
        "components/metric_credentials.py::_secret", ("secret",), "creates the Secret with the metric token", "–"
    ),
    HarmFunction("components/page.py::Page._rights", ("rbac",), "the page's ClusterRole", "no write but reviews"),
    HarmFunction(
        "components/page.py::Page._role_and_binding", ("rbac",), "the page's Role and binding", "its namespace"
    ),
    HarmFunction("components/rebalancer.py::Rebalancer._rights", ("rbac",), "the rebalancer's roles and bindings", "–"),
    HarmFunction(
        "components/upstream_operator.py::UpstreamOperator.__init__",
        ("rbac",),
        "the ClusterRole of upstream's operator",
        "upstream's rules",
    ),
    HarmFunction(
        "components/upstream_operator.py::UpstreamOperator._role_and_binding",
        ("rbac",),
        "its Role and RoleBinding",
        "upstream's rules",
    ),
    HarmFunction(
        "components/upstream_operator.py::_CLUSTER_RULES",
        ("secret",),
        "grants upstream's operator to read Secrets",
        "upstream's rule",
    ),
)

ASKING: Final = (
    HarmFunction(f"{_ENGINE}/handle.py::EngineHandle.bind", ("ask",), "a Binding", "after the node was read again"),
    HarmFunction("scheduler/plugins/defaultbinder.py::DefaultBinder.bind", ("ask",), "a Binding", "–"),
    HarmFunction(f"{_ENGINE}/cycle.py::SchedulingCycle._reach_node", ("ask",), "a Binding of an extender", "–"),
    HarmFunction(
        f"{_ENGINE}/extending.py::Extenders._bind", ("ask",), "a Binding of an extender", "only while it leads"
    ),
    HarmFunction("scheduler/preemption/evictions.py::Evictions.start", ("ask",), "a preemption", "once per preemptor"),
    HarmFunction(f"{_ENGINE}/handle.py::Evictor._delete", ("ask",), "a victim's condition, then its deletion", "–"),
    HarmFunction(f"{_ENGINE}/handle.py::Evictor._clear_nomination", ("ask",), "a nomination's end", "–"),
    HarmFunction(f"{_ENGINE}/failures.py::FailureReporter.nominate", ("ask",), "a nomination", "–"),
    HarmFunction(f"{_ENGINE}/failures.py::FailureReporter._patch", ("ask",), "a pod's condition", "–"),
    HarmFunction(
        "scheduler/plugins/dynamicresources/__init__.py::DynamicResources._create_special",
        ("ask",),
        "a pod's status: its claim for extended resources",
        "–",
    ),
    HarmFunction("scheduler/plugins/dynamicresources/binding.py::_write", ("ask",), "a claim's allocation", "–"),
    HarmFunction("scheduler/plugins/dynamicresources/binding.py::deallocate", ("ask",), "its end", "–"),
    HarmFunction(
        "scheduler/plugins/dynamicresources/binding.py::give_up_reservation", ("ask",), "the end of a reservation", "–"
    ),
    HarmFunction("scheduler/plugins/dynamicresources/extended.py::create_claim", ("ask",), "a new claim", "–"),
    HarmFunction("scheduler/plugins/dynamicresources/extended.py::delete_claim", ("ask",), "its deletion", "–"),
    HarmFunction(
        "scheduler/plugins/gangscheduling/conditions.py::PodGroupConditions._patch",
        ("ask",),
        "a PodGroup's status",
        "–",
    ),
    HarmFunction("scheduler/plugins/volumebinding/binding.py::_patch", ("ask",), "a PV's or PVC's binding", "–"),
    HarmFunction(
        "secondary_scheduler/operator/controller.py::Controller._execute", ("ask",), "the actions of a plan", "in order"
    ),
    HarmFunction(
        "secondary_scheduler/operator/reconcile/objects.py::writes",
        ("ask",),
        "an object to be applied or replaced",
        "–",
    ),
    HarmFunction("secondary_scheduler/operator/reconcile/plan.py::_delete", ("ask",), "a deletion", "–"),
    HarmFunction("secondary_scheduler/operator/reconcile/plan.py::_ensure_finalizer", ("ask",), "the finalizer", "–"),
    HarmFunction("secondary_scheduler/operator/reconcile/plan.py::_plan_finalization", ("ask",), "its removal", "–"),
    HarmFunction(
        "secondary_scheduler/operator/reconcile/canary.py::leftovers", ("ask",), "the deletion of a canary", "–"
    ),
    HarmFunction(
        "secondary_scheduler/operator/reconcile/rebalancer.py::_left", ("ask",), "the deletion of a rebalancer", "–"
    ),
    HarmFunction(
        "secondary_scheduler/rebalancer/rounds.py::RebalanceLoop._ask", ("ask",), "evictions as dry runs", "–"
    ),
    HarmFunction(
        "secondary_scheduler/rebalancer/rounds.py::RebalanceLoop._carry_out", ("ask",), "evictions, one by one", "–"
    ),
)

TABLES: Final = {
    "Writes": WRITES,
    "The client that sends them": CLIENT,
    "Credentials and Secrets": CREDENTIALS,
    "Programs and connections": PROGRAMS,
    "RBAC, and what Pulumi creates of it": RBAC,
    "Who asks for the writes": ASKING,
}
PROVEN: Final = (*WRITES, *CLIENT, *CREDENTIALS)
"""Those whose every branch a unit test takes, and whose mutants are run."""

HARMLESS: Final = {
    "secondary_scheduler/cli/selftest/instances.py::_free_port": "a socket of this machine",
    "secondary_scheduler/cli/selftest/objects.py::CLUSTER_KINDS": "a table of kinds",
    f"{_ENGINE}/extenders.py::ExtenderEndpoint.__init__": "checks the files of a certificate",
    "scheduler/observe/certificate.py::SelfSigned.use": "a server's own certificate",
    "scheduler/observe/certificate.py::serving_context": "a server's own certificate",
    "secondary_scheduler/cli/bundle/collecting.py::_credentials": "what is taken out of an archive",
    "secondary_scheduler/cli/connecting.py::_bare": "takes a scheme away",
    "secondary_scheduler/cli/fleet/drift.py::_object_differences": "leaves Secrets out of a comparison",
    "secondary_scheduler/cli/preflight/extenders.py::ExtenderTarget._check_tls": "looks at a certificate",
    "secondary_scheduler/cli/render/manifests.py::_KINDS": "the order of files",
    "secondary_scheduler/cli/render/manifests.py::_render_object": "leaves Secrets out of files",
    "secondary_scheduler/cli/render/manifests.py::files": "makes a file private",
    "secondary_scheduler/operator/reconcile/model.py::Observed.has_secret": "looks into what was read",
    "secondary_scheduler/operator/reconcile/names.py::RESOURCES": "a table of paths",
    "secondary_scheduler/operator/reconcile/plan.py::_leftovers": "looks into what was read",
    "secondary_scheduler/page/site.py::_problem": "a server's WWW-Authenticate",
    "stacks/clustercheck.py::shared_objects": "asks whether an object exists",
}
"""What only has the names of it, and why that is nothing."""
