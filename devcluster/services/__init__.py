"""The services of a cluster: each module says what one is started with and when it is ready; none starts anything."""
