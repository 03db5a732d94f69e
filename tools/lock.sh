#!/usr/bin/env bash
# Resolves requirements.in (the Pulumi program) first, then everything else within those versions.
set -euo pipefail
cd "$(dirname "$0")/.."
common=(--quiet --upgrade --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock")
.venv/bin/uv pip compile "${common[@]}" requirements.in -o requirements.txt
.venv/bin/uv pip compile "${common[@]}" pyproject.toml --all-extras --group dev --group program -c requirements.txt -o requirements-dev.txt
