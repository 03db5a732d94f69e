"""`secondary-scheduler selftest`: tries a second instance of the scheduler on the reader's own cluster."""
