"""The server app: one file for each phase of a round."""

from fedlearn.plugins import moved as moved  # imports fedlearn, which finds former names of modules in here
