"""THE COMMAND `device`: this computer as a device, with tools of its own.

Holds:   `command.py`, the command and its life at the gateway; `tools.py`, the tools; `phone.py`, the camera, contacts
         and sensors; `programs.py`, the programs that they use; `consent.py`, what the person here allows; `log.py`,
         what is printed.
Imports: the commands' room, the SDK and all below it.
To add:  a tool in `tools.py`, with the permission that it needs.
"""
