"""The commands: each is a public function, its signature and docstring are the command's help."""
