"""The load-watcher: the nodes' load for other people's schedulers, in load-watcher's format.

The image has it as the command `load-watcher`. Belongs here: everything from the source that a configuration names
to the HTTP server. Imports `scheduler` only, so that the image needs nothing of the command line.
"""
