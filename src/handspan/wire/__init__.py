"""BYTES <-> MESSAGES: messages of each protocol, decoded strictly and encoded.

Holds:   `strict_json.py`, which reads all JSON from outside (`json_size.py`: its limits; `fast_json.py`: its fast way);
         `ws_frames.py`, `ws_chat_frames.py` and `ws.py`, the frames of the WebSocket protocol (`frame_splitter.py`,
         `fast_frames.py`: bytes of frames);
         `cetp.py` and `cetp_manifest.py`, tools of other apps (`android_bundle.py`, `android_manifest.py`: those on
         phones);
         `graph/`, `rest/`, `openai/` and `agui/`, the types of the HTTP APIs; `multipart.py`, uploads of forms.
Imports: core. No sockets, no clock, no event loop: bytes alone are enough to test it.
To add:  one file or folder a protocol. Bytes that can't be read raise a `WireError`, which says where and why.
"""
