"""A cluster read page by page, reduced to what a scheduler reads.

The command line writes it to a file. It reads the API server and never writes to it.
"""
