"""What a run will do, worked out from its settings before round 1, and which settings do not go together."""
