"""Questions, answered: what results/questions.toml asks, what the records say, and the pages."""
