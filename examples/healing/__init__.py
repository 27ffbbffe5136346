"""A link that breaks, and a call that does not."""
