"""Schedules at work in a gateway."""
