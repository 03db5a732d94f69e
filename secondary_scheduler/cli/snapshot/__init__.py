"""`secondary-scheduler snapshot`: its options; `clustersnapshot` reads the cluster and writes the file."""
