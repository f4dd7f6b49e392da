"""Audits and replays of private trees: a file of cases and one of replays for each family."""
