"""Replays of what nodes with private trees report, and of the way from their files to the report."""
