"""What a node does to train private trees or to send sums."""
