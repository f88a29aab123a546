"""Policy gradients on a language model."""
