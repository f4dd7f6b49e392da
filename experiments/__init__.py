"""Runs worth repeating; see README.md."""
