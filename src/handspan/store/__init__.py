"""WHAT MUST LAST: what has to be there after a restart.

Holds:   artifacts as files of their own in the state directory; folders are 700, files 600 (SPEC S6).
Imports: core, wire, config, net.
To add:  one file a thing that lasts, behind a Protocol of core.
"""
