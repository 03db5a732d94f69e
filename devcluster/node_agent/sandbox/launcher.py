"""Starts one container's process inside its sandbox and stays as its keeper.

Run by file path as ``python -I -S launcher.py SPEC`` so that no site-packages are read: it must start in a few tens of
milliseconds. Therefore it imports the standard library only and nothing of this package.

Process tree of the ``mounts`` tier: agent -> keeper (host pid namespace) -> init (pid 1 of the container's namespace)
-> workload. ``PR_SET_PDEATHSIG`` links each to its parent, so that the death of the agent, however abrupt, ends them
all: the kernel kills a pid namespace with its init. In the ``directory`` tier there are only keeper and workload; the
keeper is a child subreaper and kills every descendant before it leaves.

Signals to the keeper: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 are passed to the workload's process group; SIGUSR2
means "kill everything now". Exit code: the workload's, or 128 + signal number as container runtimes report it.

The spec is a JSON file (``process.launch`` writes it). Success or failure of the exec is reported as
one JSON line on the inherited descriptor ``statusFd``: ``{"pid": N}`` (host pid to enter for exec) or
``{"error": "…"}``.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
AT_FDCWD, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW = -100, 0x8000, 0x100
MOUNT_ATTR_RDONLY = 1
SYS_MOUNT_SETATTR = 442  # the same number on every architecture: it came after the tables were unified
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217}
LAST_CAPABILITY = 63
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
WATCHED = {*PASSED_ON, signal.SIGUSR2, signal.SIGCHLD}
EXIT_START_ERROR = 128

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2) with its own arguments: source, target, file system type (`kind`), flags and data. Raises OSError."""
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(_libc.mount(*arguments), f"mount {source} at {target}")


def set_read_only(target: str, recursive: bool) -> None:
    """Make a mount read-only, with everything beneath if recursive (mount_setattr(2), Linux 5.12)."""
    attributes = _MountAttr(MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    result = _libc.syscall(
        ctypes.c_long(SYS_MOUNT_SETATTR),
        ctypes.c_int(AT_FDCWD),
        target.encode(),
        ctypes.c_uint(flags | AT_SYMLINK_NOFOLLOW),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, f"make {target} read-only")


def prctl(option: int, argument: int) -> None:
    """prctl(2) with one argument."""
    _check(_libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), f"prctl {option}")


def enter_new_root(root: str) -> None:
    """Make root the root of this mount namespace and let go of the old one (pivot_root(2) on itself)."""
    number = SYS_PIVOT_ROOT[os.uname().machine]
    os.chdir(root)
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), f"pivot_root {root}")
    _check(_libc.umount2(b".", MNT_DETACH), "detach the host's root")
    os.chdir("/")


def map_identity(uid: int, gid: int, outer_uid: int, outer_gid: int) -> None:
    """Let the caller be seen as uid:gid inside the new user namespace, and as itself outside."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outer_gid} 1")


# --- building the root ------------------------------------------------------------------------------------------------
def _make_file(path: str) -> None:
    if not os.path.lexists(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))


def _apply(operation: list[Any], root: str) -> None:
    kind, path, *rest = operation
    target = root + path
    if kind == "dir":
        os.makedirs(target, mode=0o755, exist_ok=True)
        if rest:
            os.chmod(target, rest[0])
    elif kind == "symlink":
        if not os.path.lexists(target):
            os.symlink(rest[0], target)
    elif kind == "bind":
        source, read_only = rest
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
        else:
            _make_file(target)
        mount(source, target, "", MS_BIND | MS_REC)
        if read_only:
            set_read_only(target, recursive=True)
    elif kind == "tmpfs":
        os.makedirs(target, exist_ok=True)
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, rest[0])
    elif kind == "proc":
        os.makedirs(target, exist_ok=True)
        try:
            mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        except PermissionError:
            # Inside another container the host's /proc is partly covered, and the kernel then forbids a fresh one.
            mount("/proc", target, "", MS_BIND | MS_REC)
    elif kind == "ro":
        set_read_only(target, recursive=False)
    else:
        raise ValueError(f"unknown mount operation {kind!r}")


def build_root(spec: dict[str, Any]) -> None:
    """Mount the container's root as planned and enter it."""
    root: str = spec["root"]
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=256m")
    for operation in spec["operations"]:
        try:
            _apply(operation, root)
        except FileNotFoundError:
            # The host's directories were listed a moment ago; what has vanished since is not part of the image.
            if operation[0] != "bind" or os.path.lexists(operation[2]):
                raise
    if spec["readOnlyRoot"]:
        set_read_only(root, recursive=False)
    enter_new_root(root)


# --- the workload -----------------------------------------------------------------------------------------------------
def drop_privileges(spec: dict[str, Any]) -> None:
    """no_new_privs, and a capability bounding set of exactly what the container keeps."""
    allowed = set(spec["capabilities"])
    for capability in range(LAST_CAPABILITY + 1):
        if capability not in allowed:
            # EINVAL beyond the kernel's last capability; EPERM where we hold none to begin with.
            _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
    if spec["noNewPrivs"]:
        prctl(PR_SET_NO_NEW_PRIVS, 1)


def exec_workload(spec: dict[str, Any], report: int) -> NoReturn:
    """Become the workload; on failure write the reason to report and exit 128."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if spec["hardening"]:
            drop_privileges(spec)
        for number in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(spec["cwd"])
        os.umask(0o022)
        argv = spec["argv"]
        os.execvpe(argv[0], argv, spec["env"])  # noqa: S606 - starting it is what this program is for
    except OSError as error:
        command = spec["argv"][0] if error.filename is None else error.filename
        write_report(report, {"error": f'exec: "{command}": {error.strerror}'})
    os._exit(EXIT_START_ERROR)


def write_report(report: int, message: dict[str, Any]) -> None:
    """Write one JSON line to the agent; it may be gone, which is its own business."""
    with contextlib.suppress(OSError):
        os.write(report, (json.dumps(message) + "\n").encode())


def start_workload(spec: dict[str, Any]) -> tuple[int, str]:
    """Fork and exec; return (pid, "") once the exec has happened, or (pid, error)."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os.setsid()
        exec_workload(spec, write_end)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        answer = stream.read()
    return pid, json.loads(answer)["error"] if answer else ""


def exit_code(status: int) -> int:
    """What a container runtime reports for a wait status."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def reap(expected: int) -> int | None:
    """Collect every dead child; return the wait status of the expected one if it is among them."""
    expected_status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == expected:
                expected_status = status
    return expected_status


def supervise(child: int, group: bool) -> int:
    """Pass signals to child (or its process group) and wait for its end; return its exit code."""
    while True:
        status = reap(child)
        if status is not None:
            return exit_code(status)
        number = signal.sigwait(WATCHED)
        if number == signal.SIGCHLD:
            continue
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGUSR2:
                kill_descendants() if group else os.kill(child, signal.SIGKILL)
            elif group:
                os.killpg(child, number)
            else:
                os.kill(child, number)


def kill_descendants() -> None:
    """SIGKILL everything that descends from this process, including what left its process group."""
    pending, me = True, os.getpid()
    while pending:
        parents: dict[int, int] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                    if fields[0] != "Z":
                        parents[int(entry)] = int(fields[1])
        victims = [pid for pid in parents if is_descendant(pid, me, parents)]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # A process may fork between the listing and its death: look again until nothing is left.
        pending = bool(victims)


def is_descendant(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    """Whether pid is a strict descendant of ancestor."""
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


# --- the roles --------------------------------------------------------------------------------------------------------
def run_init(spec: dict[str, Any], report: int) -> NoReturn:
    """Pid 1 of the container: build the root, start the workload, reap, leave with its exit code."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        build_root(spec)
        with contextlib.suppress(OSError):
            socket.sethostname(spec["hostname"][:64])
        workload, error = start_workload(spec)
    except OSError as failure:
        write_report(report, {"error": str(failure.strerror)})
        os._exit(EXIT_START_ERROR)
    write_report(report, {"error": error} if error else {"started": True})
    os.close(report)
    os._exit(supervise(workload, group=True))


def keep_namespaced(spec: dict[str, Any], report: int) -> int:
    """The ``mounts`` tier: enter new namespaces, fork the container's init, tend it."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC
    _check(_libc.unshare(ctypes.c_int(flags)), "create namespaces")
    map_identity(spec["uid"], spec["gid"], uid, gid)
    # After unshare: a change of credentials clears the death signal.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    init = os.fork()
    if init == 0:
        run_init(spec, report)
    write_report(report, {"pid": init})
    os.close(report)
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.close(descriptor)
    return supervise(init, group=False)


def keep_plain(spec: dict[str, Any], report: int) -> int:
    """The ``directory`` tier: no namespaces; every descendant dies with the workload."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    workload, error = start_workload(spec)
    write_report(report, {"error": error} if error else {"started": True, "pid": workload})
    os.close(report)
    code = supervise(workload, group=True)
    kill_descendants()
    return code


def run_inside(spec: dict[str, Any], report: int) -> int:
    """Run a command in a running container (exec probes, hooks): join its namespaces, then start and wait."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if spec["enter"]:
        names = ("user", "mnt", "pid", "uts", "ipc")
        descriptors = [os.open(f"/proc/{spec['enter']}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
        for descriptor, name in zip(descriptors, names, strict=True):
            _check(_libc.setns(descriptor, 0), f"join the {name} namespace")
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    workload, error = start_workload(spec)
    write_report(report, {"error": error} if error else {"started": True})
    os.close(report)
    return supervise(workload, group=True)


def main() -> int:
    """Read the spec and play the role it names."""
    spec = json.loads(Path(sys.argv[1]).read_bytes())
    report: int = spec["statusFd"]
    os.set_inheritable(report, False)
    if os.getppid() != spec["agentPid"]:
        return EXIT_START_ERROR  # the agent died before the death signal was in place
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    roles = {"mounts": keep_namespaced, "directory": keep_plain, "exec": run_inside}
    try:
        return roles[spec["role"]](spec, report)
    except OSError as error:
        write_report(report, {"error": str(error.strerror)})
        return EXIT_START_ERROR


if __name__ == "__main__":
    sys.exit(main())
