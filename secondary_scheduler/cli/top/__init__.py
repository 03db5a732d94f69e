"""`secondary-scheduler top nodes`: how loaded the nodes are, as the scheduler sees it, and what their pods request.

`reading` lists nodes and pods, `loads` asks the scheduler, `usage` puts both together, `rendering` writes them for
people.
"""
