"""What SQLite alone has in the steps of `tables/migrations.py`. A step never changes again.

Steps without a line here and there are PostgreSQL's: SQLite has artifacts as files, and no nodes.
"""

from typing import Final

from handspan.store.tables.migrations import steps_of

_CONVERSATIONS: Final = """
CREATE TRIGGER message_moves_its_session AFTER INSERT ON messages BEGIN
    UPDATE sessions SET length = NEW.seq, active = NEW.at, open_calls = NEW.opens WHERE id = NEW.session;
END;
CREATE INDEX calls_open ON calls (at) WHERE state <> 'done';
"""

_NO_REPLIES_IN_A_ROW: Final = """
-- Whether the last message is a model's. The first bytes of a body tell it: a message has its kind in front.
ALTER TABLE sessions ADD COLUMN ends_with_reply INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET ends_with_reply = 1 WHERE EXISTS (
    SELECT 1 FROM messages
    WHERE session = sessions.id AND seq = sessions.length
        AND substr(body, 1, 19) = CAST('{"type":"assistant"' AS BLOB)
);
DROP TRIGGER message_moves_its_session;
CREATE TRIGGER message_moves_its_session AFTER INSERT ON messages BEGIN
    UPDATE sessions SET length = NEW.seq, active = NEW.at, open_calls = NEW.opens,
        ends_with_reply = substr(NEW.body, 1, 19) = CAST('{"type":"assistant"' AS BLOB)
    WHERE id = NEW.session;
END;
"""

_NOTES: Final = """
CREATE TABLE call_notes (                     -- what came for a call when it had its result already
    call_id TEXT NOT NULL,
    at      REAL NOT NULL,
    text    TEXT NOT NULL
);
CREATE INDEX call_notes_by_call ON call_notes (call_id);
CREATE TRIGGER call_takes_its_notes_along AFTER DELETE ON calls BEGIN
    DELETE FROM call_notes WHERE call_id = OLD.id;
END;
"""

_JOURNAL: Final = """
-- How a call ended: 'open', 'success', or the code of its error. The first bytes of an envelope tell it: its status is
-- in front, and before the code there are only words of ours.
ALTER TABLE calls ADD COLUMN status TEXT GENERATED ALWAYS AS (CASE
    WHEN result IS NULL THEN 'open'
    WHEN substr(result, 1, 19) = CAST('{"status":"success"' AS BLOB) THEN 'success'
    ELSE CAST(substr(
        substr(result, instr(result, CAST('"code":"' AS BLOB)) + 8, 64), 1,
        instr(substr(result, instr(result, CAST('"code":"' AS BLOB)) + 8, 64), CAST('"' AS BLOB)) - 1
    ) AS TEXT)
END) VIRTUAL;
DROP INDEX calls_open;
CREATE INDEX calls_by_tool ON calls (owner, name, at, id);
CREATE INDEX calls_failed ON calls (owner, at, id) WHERE status NOT IN ('open', 'success');
CREATE INDEX calls_open ON calls (owner, at, id) WHERE state <> 'done';
"""

_BROWSERS: Final = """
CREATE TRIGGER token_takes_its_browser_tools_along AFTER UPDATE OF revoked ON tokens
WHEN NEW.revoked IS NOT NULL BEGIN
    DELETE FROM browser_tools WHERE client = substr(NEW.hash, 1, 16);
END;
UPDATE messages SET number = seq;
"""

_CONSENT: Final = """
ALTER TABLE calls ADD COLUMN waited REAL NOT NULL DEFAULT 0;        -- seconds for a person, beside `duration`
ALTER TABLE calls ADD COLUMN is_edited INTEGER NOT NULL DEFAULT 0;  -- 1: a person changed its arguments
"""
_NO_TRIGGER: Final = """
DROP TRIGGER message_moves_its_session;  -- the statement that adds a message moves its session first
"""
_SEARCHED: Final = """
CREATE TABLE searched (                       -- the words of each message (`core/words.py`)
    id      INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    number  INTEGER NOT NULL,                 -- of the message; 0: the name of the session
    part    INTEGER NOT NULL,                 -- 0: said by a person or a model; 1: results of calls
    words   TEXT NOT NULL,
    UNIQUE (session, number)
);
CREATE VIRTUAL TABLE said_words USING fts5(
    words, content = 'searched', content_rowid = 'id', tokenize = 'ascii', detail = 'none', columnsize = 0
);
CREATE VIRTUAL TABLE result_words USING fts5(
    words, content = 'searched', content_rowid = 'id', tokenize = 'ascii', detail = 'none', columnsize = 0
);
CREATE TABLE erased_words (                   -- one row while deleted words are still in the files of the index
    id INTEGER PRIMARY KEY CHECK (id = 1)
);
CREATE TRIGGER said_words_come AFTER INSERT ON searched WHEN NEW.part = 0 BEGIN
    INSERT INTO said_words (rowid, words) VALUES (NEW.id, NEW.words);
END;
CREATE TRIGGER result_words_come AFTER INSERT ON searched WHEN NEW.part = 1 BEGIN
    INSERT INTO result_words (rowid, words) VALUES (NEW.id, NEW.words);
END;
CREATE TRIGGER said_words_go AFTER DELETE ON searched WHEN OLD.part = 0 BEGIN
    INSERT INTO said_words (said_words, rowid, words) VALUES ('delete', OLD.id, OLD.words);
    INSERT OR IGNORE INTO erased_words VALUES (1);
END;
CREATE TRIGGER result_words_go AFTER DELETE ON searched WHEN OLD.part = 1 BEGIN
    INSERT INTO result_words (result_words, rowid, words) VALUES ('delete', OLD.id, OLD.words);
    INSERT OR IGNORE INTO erased_words VALUES (1);
END;
"""

MIGRATIONS: Final = steps_of(
    {" LONG": " INTEGER"},
    {
        1: _CONVERSATIONS,
        3: _NO_REPLIES_IN_A_ROW,
        4: _NOTES,
        5: _JOURNAL,
        6: _BROWSERS,
        9: _CONSENT,
        14: _NO_TRIGGER,
        27: _SEARCHED,
    },
)
