"""The methods as the papers print them, with the privacy that they really have; for comparison only."""
