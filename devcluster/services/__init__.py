"""The services of a cluster: each module says how one is started and when it is ready. None starts anything."""
