"""What is measured of a new state beside its metrics on the server's test set."""
