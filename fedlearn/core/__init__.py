"""The words that all packages share: state, cohort, metrics, seeding, clock, errors."""
