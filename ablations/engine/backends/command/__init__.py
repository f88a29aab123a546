"""Compute runs by a user's command: one process per run, without a shell.

study_file.py   a study of commands, from TOML
code.py         the files that a command uses: their digest, commit and copies
training.py     a run from its start to its end, and the backend
process.py      one process, killed with everything that it started
"""

from ablations.engine.backends.command.training import CommandBackend

BACKEND = CommandBackend()
