"""OpenAI Chat Completions, and the many servers that speak it: requests, answers, calls in plain text."""
