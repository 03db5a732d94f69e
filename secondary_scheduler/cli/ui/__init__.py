"""`secondary-scheduler ui`: pages on localhost that show what the scheduler sees and decides.

Decides nothing itself: it reads with `snapshot`, decides with `simulate` and asks the running scheduler with `explain`.
`guard` says who may read a page; a view's data come from the module of its name, its HTML from `templates`.
"""
