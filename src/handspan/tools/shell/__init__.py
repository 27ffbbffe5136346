"""The shell tools: `shell.py` runs a command, `policy.py` judges it first, part by part."""
