"""Sweeps as jobs of a Slurm cluster."""
