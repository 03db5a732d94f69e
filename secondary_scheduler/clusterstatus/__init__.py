"""How the schedulers on a cluster are: for the commands that ask them, and for pages.

`installations` reads the API server, and `instances` say what belongs together there; `forwarding` leads to a port of a
pod. `document` takes both, has `asking` ask the schedulers that lead and `health` judge each, and puts it into words.
Nothing is changed in the cluster. Imports nothing of the command line.
"""
