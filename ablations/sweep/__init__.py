"""Plan cells, run them by a backend and an executor, and keep their results."""
