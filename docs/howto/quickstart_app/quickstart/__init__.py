"""A Flower App that trains a small CNN."""
