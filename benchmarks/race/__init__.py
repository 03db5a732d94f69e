"""The race: this scheduler, kube-scheduler (or scheduler-plugins) and a null binder on one API server, in turn."""
