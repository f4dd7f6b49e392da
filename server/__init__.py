"""The server app: one file for each phase of a round."""
