"""The scheduler that runs beside the cluster's own: configuration, core, plugins and the daemon `kube-scheduler`."""
