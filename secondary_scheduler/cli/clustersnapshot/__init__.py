"""A cluster read page by page, reduced to what a scheduler reads, in one file.

The commands `snapshot` and `bundle` use it. It reads the API server and never writes to it.
"""
