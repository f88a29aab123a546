"""Published claims, judged: what results/claims.toml asks, what the records say, and the page."""
