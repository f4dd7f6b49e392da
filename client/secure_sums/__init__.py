"""The node's part in secure sums, and the question that a report answers."""
