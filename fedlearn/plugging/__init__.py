"""Load plugins: by a name in a table, by ``module:attribute``, or as an object; and check their options."""
