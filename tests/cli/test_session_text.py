"""A session as a document: all that was said, and what models got in place of it as notes (SPEC L1, U2)."""

from handspan.cli.session_text import SessionDocument, render_markdown
from handspan.wire.rest.sessions import MessageView, SessionView, SummaryView

TIME = "2026-01-31T10:00:00+00:00"


def test_summaries_are_notes_behind_the_messages_that_they_stand_for() -> None:
    session = SessionView("s", TIME, TIME, 4, "idle", kind="chat", name="Roses")
    messages = [
        MessageView(1, "user", "Tell me about roses.", TIME),
        MessageView(2, "assistant", "They have thorns.", TIME),
        MessageView(3, "user", "And lilies?", TIME),
        MessageView(4, "assistant", "They have none.", TIME),
    ]
    summaries = [SummaryView(2, TIME, "# Goal\n- roses\u202e")]
    text = render_markdown(SessionDocument(session, messages, summaries=summaries))
    places = [
        text.index(each) for each in ("roses.", "thorns", "**Note: from", "> # Goal\n> - roses\n", "lilies", "none")
    ]
    assert places == sorted(places) and "\u202e" not in text
