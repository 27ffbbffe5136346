"""A conversation."""
