"""Averages that stand nodes which lie: defences that look at the changes of a cohort side by side."""
