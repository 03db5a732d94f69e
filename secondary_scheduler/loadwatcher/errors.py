"""What ends a load-watcher."""


class WatcherError(Exception):
    """One line for the user: an address, a port, a file or a configuration that cannot be used."""
