"""Charts of runs: as values, and drawn for the page and for files."""
