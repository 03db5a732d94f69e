"""What `snapshot` is made of: reading a cluster page by page, keeping only what a scheduler reads, writing one file.

Reads the API server and never writes to it.
"""
