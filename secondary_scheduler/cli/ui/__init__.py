"""`secondary-scheduler ui`: pages on localhost that show what the scheduler sees and decides.

Decides nothing itself: `clustersnapshot` reads a cluster, `simulation` decides, and `schedulers` asks those that run.
`guard` says who may read a page; a view's data come from the module of its name, its HTML from `templates`.
"""
