"""STORIES: one feature a folder, each runs against a gateway and checks itself. See README.md."""
