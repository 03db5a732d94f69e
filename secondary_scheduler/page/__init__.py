"""The page in the cluster: the views of `ui`, for whoever may see them. The image has it as the command
`secondary-scheduler-page`.

It reads the cluster with rights of its own, asks the API server what a visitor may read, and cuts what is shown down to
that (`cutting`) before any view sees it. Writes nothing but reviews. A token goes to the
API server and the scheduler only where it is good there, and its owner asks (`running`). Belongs here: what only this
server needs. Imports `views` and what is below, nothing of the command line.
"""
