"""Rules for low-rank adapters: what a server makes of the factors A and B that nodes send."""
