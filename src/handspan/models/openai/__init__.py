"""What both APIs of OpenAI share: `media.py` (images, sounds, files) and `faults.py` (errors)."""
