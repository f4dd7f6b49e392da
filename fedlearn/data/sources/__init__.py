"""Data sets from what users have: arrays, other libraries' objects, folders and files."""
