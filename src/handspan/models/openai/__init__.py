"""What both APIs of OpenAI share: media, JSON on the wire, faults."""
