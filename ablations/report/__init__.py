"""Reports on records: statistics, tables, figures, the page. No JAX."""
