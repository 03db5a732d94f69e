"""What the daemon imports on its way to the first list: a start must not pay for what it does not need."""

from __future__ import annotations

import os
import subprocess
import sys

LATER = (
    "requests",
    "urllib3",
    "prometheus_api_client",
    "cryptography",
    "aiohttp",
    "rich",
    "numpy._typing",
    "importlib.metadata",
)
NOT_FOR_A_SCHEDULER = ("rebalancing", "spec", "rewrite", "difference", "complete", "found", "imagecheck")
OWN_MODULES = 247
"""At most. Whoever needs more looks at `python -X importtime` first: they take a third of the imports' time."""
OWN_DATACLASSES = 35
"""At most: Python writes and compiles the methods of each as it is imported, in some 0.7 ms. A msgspec.Struct takes
0.02 ms."""
DAEMON = """
from scheduler.imports import import_numpy, import_structlog
import_structlog()
import_numpy()
import scheduler.daemon
"""
LATEST = ("numpy", "uvloop", "prometheus_client")


def imported_by(code: str) -> set[str]:
    """Modules of a fresh interpreter after some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_configuration_is_read_before_numpy_and_http_are_there() -> None:
    code = "from scheduler.imports import import_numpy, import_structlog\nimport_structlog()\nimport scheduler.app"
    assert imported_by(code).isdisjoint({*LATEST, *LATER})


def test_metric_sources_certificates_and_the_http_library_are_imported_when_they_are_needed() -> None:
    modules = imported_by(DAEMON)
    assert modules.isdisjoint(LATER)
    assert modules >= {"numpy", "scheduler.kube.client.http"}


def test_a_start_imports_no_more_of_our_modules_than_the_budget_allows() -> None:
    ours = {name for name in imported_by(DAEMON) if name.partition(".")[0] == "scheduler"}
    assert len(ours) <= OWN_MODULES
    assert ours.isdisjoint({f"scheduler.config.{name}" for name in NOT_FOR_A_SCHEDULER})


def test_a_start_makes_few_dataclasses() -> None:
    code = f"""
import gc, sys
{DAEMON}
ours = [each for each in gc.get_objects() if isinstance(each, type) and each.__module__.startswith("scheduler")]
made = sorted({{f"{{each.__module__}}.{{each.__name__}}" for each in ours if "__dataclass_fields__" in vars(each)}})
assert 0 < len(made) <= {OWN_DATACLASSES}, "\\n".join([str(len(made)), *made])
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_evaluator_of_device_selectors_is_imported_with_the_first_selector() -> None:
    modules = imported_by("import scheduler.plugins.dynamicresources")
    assert "scheduler.cel" in modules
    assert "scheduler.cel.evaluate" not in modules


def test_what_a_library_was_imported_without_can_be_imported_later() -> None:
    code = """
from scheduler.imports import import_numpy, import_structlog
import_structlog()
import_numpy()
import numpy, rich
from numpy.typing import ArrayLike, NDArray
assert NDArray[numpy.int8].__origin__ is numpy.ndarray, NDArray
assert numpy.linalg.eigh(numpy.eye(2)).eigenvalues.tolist() == [1, 1]
"""
    assert imported_by(code) >= {"numpy._typing", "numpy._typing._array_like"}


def test_what_numpy_itself_takes_of_its_types_it_gets() -> None:
    """As a later numpy may take more of them than NDArray."""
    code = """
import sys
from scheduler.imports import _Typing, _in_place_of
with _in_place_of({"numpy._typing": _Typing("numpy._typing")}):
    from numpy._typing import NDArray, ArrayLike
    import numpy
assert ArrayLike is numpy.typing.ArrayLike and "_typing" in sys.modules["numpy._typing"].__name__
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_load_source_guesses_no_encoding_and_says_nothing_of_that() -> None:
    code = """
import warnings
warnings.simplefilter("error")
from scheduler.imports import import_requests
import_requests()
import scheduler.load.watcher, scheduler.load.prometheus, requests
answer = requests.Response()
answer._content = "50\u202f%".encode()
assert answer.text == "50\u202f%"
"""
    modules = imported_by(code)
    assert modules >= {"requests", "urllib3"}
    assert not [name for name in modules if name.startswith(("chardet", "charset_normalizer"))]


def test_a_start_has_no_threads_for_matrices() -> None:
    code = f"{DAEMON}\nimport os\nassert len(os.listdir('/proc/self/task')) == 1"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
