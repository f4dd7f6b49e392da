"""Load plugins: by a name in a table, by ``module:attribute``, or as an object; and check their options."""

from typing import TYPE_CHECKING

from fedlearn.plugins.moved import names_of

if not TYPE_CHECKING:
    __getattr__ = names_of("fedlearn.plugins.tables")
