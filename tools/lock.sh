#!/usr/bin/env bash
# Resolves requirements.in (the Pulumi program) first, then everything else within those versions, then what the image
# holds and what builds it within these.
set -euo pipefail
cd "$(dirname "$0")/.."
common=(--quiet --upgrade --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock")
.venv/bin/uv pip compile "${common[@]}" requirements.in -o requirements.txt
# In this environment the policy SDK runs beside the program's, which takes a newer protobuf. What it uses is in both.
.venv/bin/uv pip compile "${common[@]}" --override <(echo "protobuf>=5.29.5,<7") pyproject.toml \
  --all-extras --group dev --group program --group policy --group docs -c requirements.txt -o requirements-dev.txt
.venv/bin/uv pip compile "${common[@]}" pyproject.toml --extra scheduler --extra operator --extra page --extra tracing -c requirements-dev.txt -o image/requirements.txt
.venv/bin/uv pip compile "${common[@]}" pyproject.toml --extra scheduler -c image/requirements.txt -o image/requirements-scheduler.txt
.venv/bin/uv pip compile "${common[@]}" pyproject.toml --extra cli -c requirements-dev.txt -o image/requirements-cli.txt
echo "hatchling>=1.27" | .venv/bin/uv pip compile "${common[@]}" - -c requirements-dev.txt -o image/requirements-build.txt
