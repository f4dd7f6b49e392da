"""The tables of settings, as `fedlearn.config.RunConfig` puts them together."""
