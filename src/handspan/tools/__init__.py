"""Plate."""
