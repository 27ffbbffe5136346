"""Apps that offer their data as read-only tools (CETP)."""
