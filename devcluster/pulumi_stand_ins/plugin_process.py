"""What a plugin's process does before it imports anything large."""

import importlib.machinery
import signal
import sys
from importlib.util import find_spec, module_from_spec


def prepare() -> None:
    """Make the start quiet and short. Only for a process that serves a plugin and does nothing else.

    An interrupt during the imports ends the process without a trace; `serving.serve` handles those that come later.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _stub_sdk_packages()


def _stub_sdk_packages() -> None:
    """Let `pulumi.runtime.proto` be imported without the SDK around it, which takes three times as long.

    Importing a submodule runs the `__init__` of every package above it. The empty packages put in their place only say
    where the submodules are.
    """
    search = None
    for name in ("pulumi", "pulumi.runtime"):
        spec = importlib.machinery.PathFinder.find_spec(name, search) if search else find_spec(name)
        if name in sys.modules or spec is None or not spec.submodule_search_locations:
            return
        search = list(spec.submodule_search_locations)
        bare = importlib.machinery.ModuleSpec(name, None, is_package=True)
        bare.submodule_search_locations = search
        sys.modules[name] = module_from_spec(bare)
