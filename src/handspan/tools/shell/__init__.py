"""The shell tools: `shell.py` runs commands, `launcher.py` decides how, `policy.py` decides which may run.

`parser.py` splits a command line into a `script.py`; `wrappers.py` finds what programs such as `xargs` run in turn;
`literal_commands.py` lists the commands that may run without a sandbox; `description.py` tells the model what holds
here and now.
"""
