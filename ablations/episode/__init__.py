"""Watching a saved policy: its episode as a page, GIF or film."""
