"""Tables of algorithms, each tuned fairly and with the SHA-256 of every run."""
