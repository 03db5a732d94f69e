"""The command line `secondary-scheduler`, also installed as a kubectl plugin.

Data goes to stdout, messages to stderr. Exit codes: 0 ok, 1 error, 2 usage, 3 differences, 4 invalid input,
130 interrupted. A distribution that adds a command (see `app.COMMAND_GROUP`) imports this door and nothing else.
"""

from secondary_scheduler.cli.errors import (
    CommandError as CommandError,
    ExitCode as ExitCode,
    Interrupted as Interrupted,
)
from secondary_scheduler.cli.output import (
    FullOutputFormat as FullOutputFormat,
    aligned as aligned,
    document_text as document_text,
)
