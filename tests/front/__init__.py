"""Tests of the door for programs."""
