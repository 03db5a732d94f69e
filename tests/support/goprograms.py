"""Go programs of the tests: built like the binaries of the local cluster, into the same cache, when first asked for."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from devcluster.progress import SilentReporter
from devcluster.state import cache_root
from devcluster.toolchain import binaries, golang


def built(program: Path, module: Path, ldflags: str = "") -> Path:
    """Return the executable of a directory with Go files, built with the modules of another that has `go.mod`.

    A Go file that the other has takes the place of the one of its name. Modules that the program imports and `go.mod`
    does not name are added in a copy. Raises BinaryError.
    """
    sources = {file.name: file for directory in (program, module) for file in sorted(directory.glob("*.go"))}
    files = [module / "go.mod", module / "go.sum", *sources.values()]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files) + ldflags.encode())
    path = binaries.bin_cache() / f"{program.name.replace('_', '-')}-{digest.hexdigest()[:12]}"
    if not path.exists():
        report = SilentReporter()
        with golang.build_lock(binaries.bin_cache(), report), tempfile.TemporaryDirectory() as directory:
            if not path.exists():
                for file in files:
                    shutil.copy(file, directory)
                go = golang.find_go(cache_root(), report, golang.required(module))
                golang.add_requirements(go, Path(directory))
                golang.build(go, Path(directory), ".", ldflags, path)
    return path
