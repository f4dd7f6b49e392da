"""Networks of the table of models: torch modules, each built from the `DataSpec` of its data."""
