"""`secondary-scheduler simulate`: objects read from files, defaulted, decided in queue order, results written.

Reads files and writes to streams it is given; never talks to a cluster.
"""
