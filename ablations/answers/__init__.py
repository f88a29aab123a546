"""Published answers: results/questions.toml and stored runs become a data frame, pages, figures."""
