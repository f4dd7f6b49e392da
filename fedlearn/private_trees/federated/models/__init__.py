"""Private models of a federation: forests of private trees, and models of noisy sums."""
