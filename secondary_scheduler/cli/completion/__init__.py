"""`secondary-scheduler completion`: what a shell may complete, and the scripts that ask.

`words` finds the completions, `scripts` has the shells' side, `command` prints scripts and answers them.
"""

from secondary_scheduler.cli.completion.words import main as main
