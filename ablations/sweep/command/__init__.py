"""Studies whose trainer is a command: their file, their code, their processes."""
