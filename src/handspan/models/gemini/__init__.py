"""Google Gemini: requests, answers, faults."""
