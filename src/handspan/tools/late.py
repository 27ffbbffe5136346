"""The modules that a tool imports when it is used. Libraries are in `core/late_imports.py`."""

from typing import TYPE_CHECKING

from handspan.core.late_imports import LateModule

if TYPE_CHECKING:
    from handspan.tools import markdown
else:
    markdown = LateModule("handspan.tools.markdown")  # 240 ms: for the first page that becomes Markdown

__all__ = ["markdown"]
