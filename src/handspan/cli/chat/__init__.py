"""THE COMMAND `chat`: a conversation at a terminal, or one answer for a script.

Holds:   `command.py`, the command and the choice of its parts (read it first); `terminal_chat.py`, the conversation
         at the terminal; `conversation.py`, line after line; `commands.py`, what `/` begins. What is shown: `lines.py`
         for pipes and simple terminals, and JSON; `screen.py` for all others, with `blocks.py` and `markdown.py`,
         `progress.py` and `images.py`. What is typed: `prompt.py`, with `editor.py` and `word_completion.py` where
         lines can be edited. `attachments.py`, files of messages; `edits.py`, what an edit would change.
Imports: the commands' room, the SDK and all below it. `screen.py`, `editor.py` and `word_completion.py` load rich and
         prompt_toolkit, and only a terminal loads them.
To add:  a command that begins with `/`: a method in `commands.py`, and its line in the table there.
"""
