"""Attackers of a study, as the server sees them: their lies that need all reports, and what comes of an attack."""
