"""What surrounds the scheduler: the Kubernetes client, the controller, the command line and the local cluster."""

__version__ = "0.1.0"
