"""Secure sums: the server learns the sum of what the nodes send, and nothing of any one of them (README.md)."""
