"""AG-UI ON THE WIRE: the input of a run as it comes, and the events of its stream as they go (SPEC F4).

Holds:   `run_input.py` reads the input of a run; `events.py` is what a stream can hold; `messages.py` the messages that
         both have.
Imports: core. The packages `@ag-ui/client` and `ag-ui-protocol`, version 1.0, are the authority on all of it; the first
         one judges it in `tests/gateway/agui`.
To add:  a field of the input or of an event is a field of its Struct. An unknown field is ignored; a field that is not
         set is left out, for clients refuse null.
"""
