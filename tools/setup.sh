#!/usr/bin/env bash
# Makes .venv from the lock file. Needs a Python 3.11+ that can make environments; brings everything else itself.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
uv_version=0.13.9

fail() { echo "setup: $1" >&2; exit 1; }

command -v "$python" >/dev/null || fail "$python not found; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$python" --version) is too old; Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "$python cannot make virtual environments; on Debian: apt-get install python3-venv"
free_kb=$(df -Pk . | awk 'NR==2 {print $4}')
[ "$free_kb" -gt 900000 ] || fail "only $((free_kb / 1024)) MB free in $PWD; the environment needs 900 MB"

start=$SECONDS
if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "setup: virtual environment in .venv"
  rm -rf .venv
  "$python" -m venv .venv
fi
if ! [ "$(.venv/bin/uv --version 2>/dev/null | cut -d' ' -f2)" = "$uv_version" ]; then
  echo "setup: installer (uv $uv_version)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$uv_version" ||
    fail "the installer could not be fetched; is a Python package index reachable?"
fi
echo "setup: installing $(grep -c '==' requirements-dev.txt) locked packages (a minute or two)"
# Compiled now: where Python may not write byte code of its own (PYTHONDONTWRITEBYTECODE), every command would compile
# what it imports, which takes longer than most of them.
.venv/bin/uv pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes requirements-dev.txt ||
  fail "the locked packages could not be installed; run 'make setup' again once the package index is reachable"
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e . -e ./devcluster
.venv/bin/python -m compileall -q scheduler secondary_scheduler devcluster components stacks
touch .venv/.ready
echo "setup: ready in $((SECONDS - start)) s"
