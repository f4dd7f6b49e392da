"""The client app: what runs on a node."""

from fedlearn.plugins import moved as moved  # imports fedlearn, which finds former names of modules in here
