"""Anthropic Messages: requests, blocks, the decoder of its events, its faults."""
