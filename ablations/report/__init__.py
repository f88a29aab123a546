"""From records to what a study found: statistics, tables, figures, the page. No JAX."""
