"""`secondary-scheduler version`: of the command line and, with a cluster, of what runs there."""
