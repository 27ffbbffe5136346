"""Long conversations: what models see of them, so that none ends by its length (SPEC L1, L2).

May import what `agent` may. `sizes.py` and `meter.py` say how full a context is, `planner.py` what has to become
shorter, `view.py` makes it so, `summary.py` has the request for a summary and checks the answer, `compactor.py` does
all of it before a request. To show less in
another way, add a mark to `ContextMarks` and its meaning to `view.py`.
"""
