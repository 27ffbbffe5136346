"""OpenAI Responses: requests and the decoder of its events."""
