"""`secondary-scheduler bundle`: a support archive of an installation, without its secrets.

`collecting` reads and puts the parts together, `selecting` says which objects belong to the installation, `keeping`
which of their fields are kept (the allowlist, made of `shapes`), `redaction` what is taken out of the text that is
left.
"""
