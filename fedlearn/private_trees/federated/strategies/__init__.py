"""How the server combines trees or sums of the nodes."""
