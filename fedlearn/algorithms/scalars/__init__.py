"""Training by directional derivatives: clients send a few scalars a round, and the state is their history."""
