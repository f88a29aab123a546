"""Language tasks: prompts whose answers are checked."""
