"""Algorithms of other frameworks, in their own code, on problems whose answer is known."""
