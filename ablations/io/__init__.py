"""Runs in and out: logs as others write them, import, export, and archives for git."""
