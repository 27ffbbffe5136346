"""Files of the workspace: their names, for a person who writes one into a message (SPEC U6)."""

import asyncio
import os
from pathlib import Path
from typing import Final

from handspan.core.errors import ToolError
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.route import Family, RestRequest
from handspan.tools.directories import DirectoryEntry, Listing
from handspan.tools.sandbox import Sandbox
from handspan.tools.workspace import Workspace
from handspan.wire.rest import files as wire

family: Final = Family("files")
_LISTS: Final = "list_directory"
"""Who may not use this tool sees no names here either."""
_MOST: Final = 1000


@family.get("/api/files", also_refuses=(404,))
async def files(request: RestRequest, query: wire.FilesQuery) -> wire.FileNames:
    """The names in a folder of the workspace. Refused (403) where the agent may not list folders itself."""
    agent, app = await find_agent(request, query.agent), request.app
    if app.registry.toolbox(agent, request.who).find(_LISTS) is None:
        text = f"The agent {agent.name!r} may not list folders: give it the tool {_LISTS!r}, or name another agent."
        raise Refusal(403, "forbidden", text)
    try:
        listing = await asyncio.to_thread(_list_folder, app.settings.workspace, app.sandbox, query.folder)
    except ToolError as error:
        raise Refusal(404, "not_found", error.message) from None
    shown = [_render_entry(one) for one in listing.entries]
    return wire.FileNames(shown, listing.total)


def _render_entry(entry: DirectoryEntry) -> wire.FileEntry:
    name = os.fsencode(entry.name).decode("utf-8", "backslashreplace")  # JSON can't have a name that is not UTF-8
    return wire.FileEntry(name, entry.kind == "directory")


def _list_folder(workspace: Path, sandbox: Sandbox, folder: str) -> Listing:
    """Return what is in the folder, behind the same guards as for the file tools."""
    with Workspace(workspace, sandbox.hidden, sandbox.file_owner) as opened:
        return opened.entries(folder or ".", _MOST)
