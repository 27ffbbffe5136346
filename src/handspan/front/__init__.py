"""THE DOOR FOR PROGRAMS: an agent with tools inside a Python program.

Holds:   `handspan.py`, the class `Handspan` (read it first), over `open_agent.py`, which composes App and sessions;
         `options.py`, the options with the settings and tool sources that they become; `answers.py`, what `ask`
         returns and raises; `answer_types.py` and `final_answer.py`, typed answers; `questions.py`, the callback that
         answers questions; `loop_thread.py`, the event loop of the sync form.
Imports: gateway, agent, sources, registry, models, config, core.
To add:  an option goes into `Handspan.__init__` and `options.py`; a new supplier of tools, such as MCP servers, into
         `HandspanOptions.sources`. `docs/embedding.md` explains it in the same commit.
"""
