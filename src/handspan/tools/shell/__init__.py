"""The shell tools: `shell.py` runs commands, `launcher.py` decides how, `policy.py` decides which may run.

`parser.py` splits a command line into the parts of `script.py`; `wrappers.py` finds the commands that programs such as
`xargs` run; `literal_commands.py` lists the commands that may run without a sandbox; `description.py` tells the model
what a command can do on this machine now.
"""
