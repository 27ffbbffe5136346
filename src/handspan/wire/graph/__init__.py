"""The graph API, by which web pages bring their tools: bodies of requests (`reading.py`), of answers (`answers.py`)."""
