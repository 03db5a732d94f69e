"""`secondary-scheduler snapshot`: a cluster read page by page, reduced to what a scheduler reads, in one file.

Reads the API server and never writes to it.
"""
