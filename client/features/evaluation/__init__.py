"""Models of a node beside the one that it uses: what it measures in comparison, and its own where none is averaged."""
