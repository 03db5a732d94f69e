"""The scheduler that runs beside the cluster's own: configuration, core, plugins and the daemon `kube-scheduler`.

It stands on its own: nothing here imports another package of this project. This module imports nothing.
"""

__version__ = "0.2.0"
