"""The torch modules that stand in the table of models: each is built from the `DataSpec` of its data."""
