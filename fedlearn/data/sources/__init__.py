"""Data sets from users' arrays, objects of other libraries, folders and files."""
