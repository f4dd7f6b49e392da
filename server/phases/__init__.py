"""The phases of a round: selection, configuration, reporting; and evaluation."""
