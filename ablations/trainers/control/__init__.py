"""Proximal policy optimisation on control tasks."""
