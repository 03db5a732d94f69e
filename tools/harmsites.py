"""Finds, by the syntax tree, every place from which harm can come: a write to the API server, a credential that is sent
or taken, a Secret, RBAC, a connection, another program. `tools.harmfunctions` says which functions may have which.

Names decide, not types: whatever is called `post` counts, whoever has it. `COLLECTIONS` has what is no such thing.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import Final, NamedTuple

WRITE, ASK, RBAC, SECRET = "write", "ask", "rbac", "secret"
CREDENTIAL, CONNECTION, PROGRAM = "credential", "connection", "program"
WAYS: Final = {
    WRITE: "sends a request that is no GET",
    ASK: "asks one of ours for a write",
    RBAC: "makes an object of RBAC",
    SECRET: "names Secrets to the API server",
    CREDENTIAL: "puts a credential into a request, makes, takes or checks one",
    CONNECTION: "opens a connection",
    PROGRAM: "starts a program",
}

_VERBS: Final = frozenset({"post", "put", "patch", "delete", "request"})
_EFFECTS: Final = frozenset(
    {"patch_pod", "delete_pod", "patch_object", "create_object", "delete_object", "evict", "bind", "execute"}
)
_ACTIONS: Final = frozenset({"Apply", "Delete", "SetFinalizers"})
"""What the operator's plan consists of."""
_CREDENTIALS: Final = frozenset(
    {"authorization", "ssl_context", "load_cert_chain", "with_token", "request_token", "review_token"}
    | {"load_kube_config", "get_api_key_with_prefix"}
)
_CONNECTIONS: Final = frozenset(
    {"HTTPConnection", "HTTPSConnection", "ClientSession", "Session", "ws_connect", "create_connection"}
    | {"open_connection", "open_unix_connection", "create_unix_connection", "urlopen", "sock_connect", "PoolManager"}
)
_PROGRAMS: Final = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|os\.(system|popen|exec\w+|spawn\w+|posix_spawnp?|fork)|pty\.\w+|(asyncio\.)?create_subprocess_\w+"
)
_RBAC_KINDS: Final = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
_SCHEMES: Final = ("Bearer", "Basic ")
COLLECTIONS: Final = frozenset(
    {
        ("scheduler/config/releases.py", "self.patch"),
        ("scheduler/engine/inputs.py", "self._queue.delete"),
        ("scheduler/kube/client/store.py", "changes.delete"),
        ("scheduler/kube/client/store.py", "changes.put"),
        ("scheduler/observe/server.py", "listener.bind"),
        ("scheduler/plugins/noderesourcetopologymatch/caches.py", "self.table.put"),
        ("scheduler/serving.py", "server.bind"),
        ("scheduler/state/objects.py", "index.put"),
        ("scheduler/state/queue.py", "self._unschedulable.put"),
        ("secondary_scheduler/cli/replaying.py", "self._changing.put"),
        ("secondary_scheduler/cli/ui/course.py", "self._changing.put"),
        ("secondary_scheduler/serving.py", "log.bind"),
        ("secondary_scheduler/views/asking.py", "request.post"),
    }
)
"""File and text of what has the name of a write and is none: collections, listening sockets, loggers, what a server
got."""


class Site(NamedTuple):
    """A place in a module: its line, its function (`Class.method`, or the name of a constant), and what it does."""

    line: int
    function: str
    way: str
    text: str


class Findings(NamedTuple):
    """What is found in a module: places, and by their kinds the Kubernetes objects that Pulumi makes."""

    sites: tuple[Site, ...]
    resources: tuple[tuple[str, Site], ...]


@functools.cache
def findings(path: str, source: str) -> Findings:
    """Look through a module's text; `path` is relative to the repository."""
    finder = _Finder(path)
    finder.visit(ast.parse(source))
    return Findings(tuple(finder.sites), tuple(finder.resources))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str) -> None:
        self._path = path
        self._within: list[str] = []
        self._called: set[int] = set()
        self.sites: list[Site] = []
        self.resources: list[tuple[str, Site]] = []

    def _site(self, node: ast.expr, way: str) -> Site:
        text = " ".join(ast.unparse(node).split())
        return Site(node.lineno, ".".join(self._within) or "<module>", way, text[:80])

    def _add(self, node: ast.expr, way: str) -> None:
        self.sites.append(self._site(node, way))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._enter(node)

    def _enter(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for outside in (*node.decorator_list, *(node.bases if isinstance(node, ast.ClassDef) else ())):
            self.visit(outside)
        self._within.append(node.name)
        if not isinstance(node, ast.ClassDef):
            for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.visit(default)
        documented = bool(node.body) and _is_text(node.body[0])
        for statement in node.body[documented:]:
            self.visit(statement)
        self._within.pop()

    def visit_Expr(self, node: ast.Expr) -> None:
        if not _is_text(node):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._constant(node.targets[0], node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._constant(node.target, node)

    def _constant(self, target: ast.expr, node: ast.Assign | ast.AnnAssign) -> None:
        """A module's or class's constant has its name; types are not looked at."""
        named = isinstance(target, ast.Name) and not self._within
        if named:
            assert isinstance(target, ast.Name)
            self._within.append(target.id)
        if node.value is not None:
            self.visit(node.value)
        if named:
            self._within.pop()
        elif not isinstance(target, ast.Name):
            self.visit(target)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        text = _dotted(called)
        if (self._path, text) not in COLLECTIONS:
            self._called.add(id(called))
            if name in _VERBS and isinstance(called, ast.Attribute) and not _is_get(name, node):
                self._add(called, WRITE)
            elif (name in _EFFECTS and isinstance(called, ast.Attribute)) or (
                name in _ACTIONS and isinstance(called, ast.Name)
            ):
                self._add(called, ASK)
        if name in _CREDENTIALS:
            self._add(called, CREDENTIAL)
        if name in _CONNECTIONS:
            self._add(called, CONNECTION)
        if _PROGRAMS.fullmatch(text) or name == "Popen":
            self._add(called, PROGRAM)
        if text.startswith("k8s.") or text == "KubeObject":
            self.resources.append((name, self._site(called, "resource")))
        makes_rbac = any(isinstance(value, ast.Constant) and value.value in _RBAC_KINDS for value in node.args)
        if text.startswith("k8s.rbac.") or (makes_rbac and name != "ObjectKey"):
            self._add(called, RBAC)
        if text == "k8s.core.v1.Secret":
            self._add(called, SECRET)
        if name == "getattr" and len(node.args) > 1:
            self._by_name(node)
        self.generic_visit(node)

    def _by_name(self, node: ast.Call) -> None:
        wanted = node.args[1]
        name = wanted.value if isinstance(wanted, ast.Constant) else ""
        for names, way in ((_VERBS, WRITE), (_EFFECTS, ASK), (_CREDENTIALS, CREDENTIAL), (_CONNECTIONS, CONNECTION)):
            if name in names:
                self._add(node, way)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        # A bound method that is handed on is called elsewhere, under another name.
        handed_on = isinstance(node.ctx, ast.Load) and id(node) not in self._called
        if handed_on and (self._path, text := _dotted(node)) not in COLLECTIONS:
            held = _dotted(node.value)
            if node.attr in _VERBS - {"request"} or (
                node.attr == "request" and held.endswith(("client", "connection", "session", "cluster"))
            ):
                self._add(node, WRITE)
            elif node.attr in _EFFECTS and held.endswith(("handle", "world", "writer")):
                self._add(node, ASK)
            elif _PROGRAMS.fullmatch(text):
                self._add(node, PROGRAM)
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Types are not looked at."""

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            is_kind = isinstance(key, ast.Constant) and key.value == "kind"
            if is_kind and isinstance(value, ast.Constant) and value.value in _RBAC_KINDS:
                self._add(node, RBAC)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str):
            return
        if node.value == "Authorization" or node.value.startswith(_SCHEMES):
            self._add(node, CREDENTIAL)
        if node.value in ("Secret", "secrets") or ("/secrets/" in node.value and not node.value.startswith("/var/run")):
            self._add(node, SECRET)


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c`, or what follows the last call in it."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_get(name: str, node: ast.Call) -> bool:
    """Tell whether a call of `request` is a GET for certain."""
    method = node.args[0] if node.args else None
    return name == "request" and isinstance(method, ast.Constant) and method.value == "GET"
