"""How a snapshot file carries what is no Kubernetes object: `snapshot` writes it, `simulate` reads it."""

LOAD_KIND = "NodeLoad"
"""Kind of the document that holds what load-watcher serves at `/watcher`."""
VERSION_KIND = "ClusterVersion"
"""Kind of the document that holds what the API server says at `/version`."""
CONFIGURATION_KIND = "SchedulerConfiguration"
"""Kind of the document that holds what an installed scheduler runs; it has the name of the scheduler's Deployment."""
