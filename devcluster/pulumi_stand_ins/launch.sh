#!/bin/sh
# Starts a module of this package with the Python that can import it. The engine starts plugins by their file name, from
# any directory and with whatever PATH the user has, so the interpreter is looked for beside the package first.
module=$1
shift
here=$(dirname -- "$(readlink -f -- "$0")")
root=$here/../..
if [ -n "$SECONDARY_SCHEDULER_PYTHON" ]; then
    python=$SECONDARY_SCHEDULER_PYTHON
elif [ -x "$root/.venv/bin/python3" ]; then # a checkout
    python=$root/.venv/bin/python3
elif [ -x "$root/../../../bin/python3" ]; then # installed into an environment's site-packages
    python=$root/../../../bin/python3
else
    python=python3
fi
# -P: the project's directory, which is where the engine starts us, must not shadow our imports.
exec "$python" -P -u -m "$module" "$@"
