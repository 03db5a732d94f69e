"""The process in which `render` runs the program leaves nothing behind that the interpreter would complain about."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from secondary_scheduler.cli.render import recorder

PROGRAM = """
import pulumi
for number in range(20):
    metadata = {"name": f"m{number}", "namespace": "default"}
    made = pulumi.CustomResource("kubernetes:core/v1:ConfigMap", f"m{number}", {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": None,
    })
    made.urn.apply(lambda urn: urn)
"""
REFUSING = PROGRAM + "raise pulumi.RunError('refused')\n"
# Runs the recorder again and again in one interpreter. What is destroyed without having been closed is a
# ResourceWarning, which is an error here: it then ends in the hook, however the collector orders what it destroys.
REPEATED = """
import gc, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("recorder", sys.argv[1])
recorder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recorder)
complaints = []
sys.unraisablehook = lambda raised: complaints.append(f"{raised.object}: {raised.exc_value!r}")
request = json.load(sys.stdin)
counts = []
for _ in range(3):
    try:
        counts.append(len(recorder.record(request)))
    except Exception as error:
        counts.append(str(error))
    gc.collect()
print(json.dumps({"counts": counts, "complaints": complaints}))
"""


@pytest.mark.parametrize(("program", "expected"), [(PROGRAM, 20), (REFUSING, "refused")])
def test_no_event_loop_is_left_for_the_interpreter_to_close(tmp_path: Path, program: str, expected: int | str) -> None:
    (tmp_path / "__main__.py").write_text(program)
    request = {"root": str(tmp_path), "project": "p", "stack": "s", "config": {}, "secretKeys": []}
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", REPEATED, str(recorder.__file__)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["counts"] == [expected] * 3
    assert result["complaints"] == []
    assert done.stderr == ""
