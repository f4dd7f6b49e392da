"""Protection of whole nodes: what such a run can have, and the noise on the sum of a round with its account."""
