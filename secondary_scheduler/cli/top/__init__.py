"""`secondary-scheduler top nodes`: how loaded the nodes are, as the scheduler sees it, and what their pods request.

`reading` lists nodes and pods and asks the scheduler for their load, `usage` puts both together, and `rendering` writes
them for people.
"""
