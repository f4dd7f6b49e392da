"""Statistics and regression beside other libraries on all rows in one table."""
