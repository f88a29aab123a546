"""Episodes of saved policies as a page or a GIF."""
