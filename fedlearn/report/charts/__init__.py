"""What there is to see in runs: charts as values, and the two that draw them, for the page and for files."""
