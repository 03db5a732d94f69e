"""What pages show of a cluster and of what is decided on it, from a page model to HTML.

The command `ui` serves these views on localhost, the page in the cluster to whoever may see them. A view's data come
from the module of its name, its HTML from `templates`; `showing` connects the two. Decides nothing itself: `simulation`
does. Who may look, and at which page model, is up to the server.
"""
