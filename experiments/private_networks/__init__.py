"""Private networks: accounts, factorizations, noise."""
