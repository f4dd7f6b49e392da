"""How code comes in by its name: tables, ``module:attribute``, objects, options."""
