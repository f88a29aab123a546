"""Watching a saved policy: its episode as a page or a GIF."""
