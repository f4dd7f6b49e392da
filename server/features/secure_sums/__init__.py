"""Secure sums: the server learns the sum of what a cohort, or each of its groups, has sent, and no single report."""
