"""The command line `secondary-scheduler`, also installed as a kubectl plugin.

Data goes to stdout, messages to stderr. Exit codes: 0 ok, 1 error, 2 usage, 3 differences, 4 invalid input,
130 interrupted.
"""

from secondary_scheduler.cli.app import main

__all__ = ["main"]
