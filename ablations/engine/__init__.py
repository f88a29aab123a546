"""Plan runs, train them here or on a cluster, and keep their results."""
