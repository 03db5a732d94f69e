"""How the installations on a cluster are: for the command `status` and the first view of `ui`.

`document` is the door: it takes what `installations` reads of the API server, has `asking` ask the running schedulers,
`instances` make the document of both, and `health` judge it. `facts` puts it into words.
"""
