"""The HTML page about studies: tables, figures and settings."""
