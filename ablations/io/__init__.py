"""Runs in and out: other programs' logs, import, export, and archives for git."""
