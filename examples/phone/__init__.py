"""A phone, as far as its tools go."""
