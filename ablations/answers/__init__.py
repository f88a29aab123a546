"""Published answers: from results/questions.toml and stored runs to a data frame and pages."""
