"""Makes a base image out of this machine's Python, for machines that cannot reach a container registry.

    python tools/base_image.py localhost/secondary-scheduler/base:python3.11

The image holds the running interpreter with its standard library under /usr/local, where the official Python images
have theirs, the shared libraries that it and its extension modules load, certificates, and no shell. It is only
as up to date as this machine: in production, use a published and patched base (docs/image.md).
"""

from __future__ import annotations

import io
import re
import ssl
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
STANDARD_LIBRARY = f"lib/python{VERSION}"
CONTAINERFILE = "FROM scratch\nADD rootfs.tar /\nENV PATH=/usr/local/bin:/usr/bin:/bin\n"
# What wheels for Linux may expect of the system beside libc (PEP 600).
EXPECTED = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libz.so.1")
# Of no use in a container, or large and only for development.
LEFT_OUT = re.compile(
    r"/(?:__pycache__|site-packages|test|tests|idlelib|tkinter|turtledemo|lib2to3|config-[^/]*)(?:/|$)|\.a$|_tkinter[^/]*\.so$"
)
DIRECTORIES = ("etc", "home", "opt", "root", "run", "tmp", "usr/bin", "usr/lib", "usr/local/bin", "var/tmp")
LINKS = {"bin": "usr/bin", "usr/local/bin/python3": f"python{VERSION}", "usr/local/bin/python": f"python{VERSION}"}
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def libraries(binaries: Iterable[Path]) -> set[Path]:
    """Shared libraries, and the loader, that the dynamic linker finds for binaries."""
    paths: set[Path] = set()
    for binary in binaries:
        done = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False)
        paths |= {Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout)}
    return paths


def expected_libraries() -> Iterator[Path]:
    """Those that any wheel may load, as the linker's cache has them."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for name in EXPECTED:
        if match := re.search(rf"^\s*{re.escape(name)} \(libc6,x86-64[^)]*\) => (\S+)", listing, re.M) or re.search(
            rf"^\s*{re.escape(name)} \(libc6[^)]*\) => (\S+)", listing, re.M
        ):
            yield Path(match[1])


def write_rootfs(archive: tarfile.TarFile) -> None:
    """Write the root file system; the order and owners do not depend on the machine."""
    prefix = Path(sys.base_prefix)
    library = prefix / STANDARD_LIBRARY
    files = {
        f"usr/local/{file.relative_to(prefix)}": file
        for file in sorted(library.rglob("*"))
        if file.is_file() and not LEFT_OUT.search("/" + str(file.relative_to(library)))
    }
    interpreter = Path(sys.executable).resolve()
    files[f"usr/local/bin/python{VERSION}"] = interpreter
    modules = [file for file in files.values() if file.suffix == ".so"]
    shared = libraries([interpreter, *modules]) | libraries(expected_libraries()) | set(expected_libraries())
    own = {path for path in shared if path.is_relative_to(prefix)}
    files |= {_merged(path): path.resolve() for path in shared - own}
    # Beside libc, where the linker looks without a cache.
    system = next(Path(name).parent for name in files if Path(name).name == "libc.so.6")
    files |= {f"{system}/{path.name}": path.resolve() for path in own}
    authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    if Path(authorities).is_file():
        files["etc/ssl/certs/ca-certificates.crt"] = Path(authorities)
    for name in DIRECTORIES:
        _add(archive, tarfile.TarInfo(name), tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755)
    for name, target in {**LINKS, **{top: f"usr/{top}" for top in ("lib", "lib64")}}.items():
        link = tarfile.TarInfo(name)
        link.linkname = target
        _add(archive, link, tarfile.SYMTYPE, 0o777)
    for name, text in FILES.items():
        _add_bytes(archive, name, text.encode(), 0o644)
    for name, file in sorted(files.items()):
        _add_bytes(archive, name, file.read_bytes(), 0o755 if file.stat().st_mode & 0o100 else 0o644)


def _merged(path: Path) -> str:
    """Where a system library stands when /lib and /lib64 are links into /usr, as in every current distribution."""
    text = str(path).lstrip("/")
    return text if text.startswith("usr/") else f"usr/{text}"


def _add(archive: tarfile.TarFile, entry: tarfile.TarInfo, kind: bytes, mode: int) -> None:
    entry.type, entry.mode = kind, mode
    archive.addfile(entry)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def main(image: str, podman: str = "podman") -> int:
    """Make an image of that name; the same files give the same image, as its time is 1970."""
    with tempfile.TemporaryDirectory() as context:
        with tarfile.open(Path(context, "rootfs.tar"), mode="w") as archive:
            write_rootfs(archive)
        Path(context, "Containerfile").write_text(CONTAINERFILE, encoding="utf-8")
        options = ["--quiet", "--isolation", "chroot", "--no-cache", "--timestamp", "0", "--tag", image]
        done = subprocess.run([podman, "build", *options, context], stdout=subprocess.DEVNULL, check=False)
    return done.returncode


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
