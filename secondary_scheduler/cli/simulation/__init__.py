"""What `simulate` is made of: reading objects from files, defaulting them, deciding in queue order, writing results.

Reads files and writes to streams it is given; never talks to a cluster.
"""
