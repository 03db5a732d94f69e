"""How the schedulers on a cluster are: for the commands that ask them, and for pages.

`installations` reads the API server, and says what belongs together there; `schedulerclient` asks a scheduler through
a forwarded port of its pod. `document` takes both, has `asking` ask the schedulers that lead and `health` judge each,
and returns what `status` defines; `summary` puts it into words. Nothing is changed in the cluster. Imports nothing of
the command line.
"""
