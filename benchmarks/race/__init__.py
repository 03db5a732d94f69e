"""The race: this scheduler, its Go peer and a null binder on the same API server, in turn."""
