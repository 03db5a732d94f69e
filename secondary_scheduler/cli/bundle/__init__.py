"""`secondary-scheduler bundle`: a support archive of an installation, without its secrets.

`collecting` reads and puts the parts together, `redaction` takes secrets out of them, `archive` writes them.
"""
