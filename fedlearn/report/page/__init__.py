"""The page: its sections, its style sheet and its script, in one file that needs no network."""
