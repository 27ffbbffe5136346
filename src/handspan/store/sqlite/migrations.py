"""The tables, as numbered steps. A database of version n has the first n steps. A step never changes again."""

from typing import Final

_CONVERSATIONS: Final = """
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    owner      TEXT NOT NULL,
    agent      TEXT NOT NULL,
    name       TEXT NOT NULL,
    created    REAL NOT NULL,
    active     REAL NOT NULL,
    state      TEXT NOT NULL DEFAULT 'idle',
    run        TEXT,                          -- the process that runs its turn
    length     INTEGER NOT NULL DEFAULT 0,
    open_calls TEXT                           -- what the last message asks for: a JSON list of call ids
);
CREATE INDEX sessions_by_owner ON sessions (owner, active, id);
CREATE INDEX sessions_running ON sessions (run) WHERE state = 'running';

CREATE TABLE messages (
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    at      REAL NOT NULL,
    opens   TEXT,                             -- as sessions.open_calls
    body    BLOB NOT NULL,                    -- a Message of core, as JSON
    PRIMARY KEY (session, seq)
);
CREATE TRIGGER message_moves_its_session AFTER INSERT ON messages BEGIN
    UPDATE sessions SET length = NEW.seq, active = NEW.at, open_calls = NEW.opens WHERE id = NEW.session;
END;

CREATE TABLE calls (
    id               TEXT PRIMARY KEY,
    owner            TEXT NOT NULL,
    session          TEXT NOT NULL,           -- empty: made outside any session
    agent            TEXT NOT NULL,
    name             TEXT NOT NULL,
    tool             BLOB NOT NULL,           -- ToolFacts, as JSON
    arguments        BLOB NOT NULL,
    arguments_form   TEXT NOT NULL,           -- object (JSON), text or bytes (as they came)
    at               REAL NOT NULL,
    size             INTEGER NOT NULL,
    state            TEXT NOT NULL,
    run              TEXT,                    -- the process that works on it
    expires_at       REAL,
    duration         REAL NOT NULL DEFAULT 0,
    result           BLOB,                    -- the envelope, as JSON
    attachments      BLOB,
    true_result      BLOB,
    true_attachments BLOB
);
CREATE INDEX calls_by_owner ON calls (owner, at, id);
CREATE INDEX calls_by_session ON calls (session, at, id);
CREATE INDEX calls_open ON calls (at) WHERE state <> 'done';

CREATE TABLE questions (
    id          TEXT PRIMARY KEY,
    call_id     TEXT NOT NULL,
    owner       TEXT NOT NULL,
    session     TEXT NOT NULL,
    asked_at    REAL NOT NULL,
    expires_at  REAL NOT NULL,
    body        BLOB NOT NULL,                -- Question, as JSON
    answer      BLOB,                         -- Answer, as JSON; the first one wins
    answered_at REAL
);
CREATE INDEX questions_by_call ON questions (call_id);
CREATE INDEX questions_by_session ON questions (session);
CREATE INDEX questions_open ON questions (owner, asked_at) WHERE answer IS NULL;
"""

_AROUND_THEM: Final = """
CREATE TABLE usage (
    session   TEXT NOT NULL,
    seq       INTEGER NOT NULL,               -- of the reply
    owner     TEXT NOT NULL,
    model     TEXT NOT NULL,
    day       TEXT NOT NULL,                  -- UTC
    input     INTEGER,                        -- NULL is unknown, here and below; never 0
    output    INTEGER,
    cached    INTEGER,
    reasoning INTEGER,
    cost      REAL,                           -- USD
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX usage_by_owner ON usage (owner, day);

CREATE TABLE agents (
    owner TEXT NOT NULL,
    name  TEXT NOT NULL,
    body  BLOB NOT NULL,                      -- Agent, as JSON
    PRIMARY KEY (owner, name)
) WITHOUT ROWID;

CREATE TABLE tokens (
    hash      TEXT PRIMARY KEY,               -- never the token itself
    owner     TEXT NOT NULL,
    scopes    BLOB NOT NULL,
    label     TEXT NOT NULL,
    created   REAL NOT NULL,
    last_seen REAL,
    revoked   REAL
);
CREATE INDEX tokens_by_owner ON tokens (owner, created);

CREATE TABLE rules (                          -- what a person said "always" to
    owner       TEXT NOT NULL,
    kind        TEXT NOT NULL,
    tool        TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    subject     TEXT NOT NULL,
    answer      BLOB NOT NULL,
    at          REAL NOT NULL,
    PRIMARY KEY (owner, kind, tool, fingerprint, subject)
) WITHOUT ROWID;
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

_DEVICES_AND_NOTES: Final = """
CREATE TABLE devices (
    owner     TEXT NOT NULL,
    id        TEXT NOT NULL,                  -- the label it asked for
    label     TEXT NOT NULL,                  -- what it is called now
    name      TEXT NOT NULL,
    last_seen REAL NOT NULL,
    tools     BLOB NOT NULL,                  -- fingerprints by the device's own names, as JSON
    gone      BLOB NOT NULL,                  -- the same of tools that it had once
    changed   BLOB NOT NULL,                  -- a JSON list of names
    PRIMARY KEY (owner, id)
) WITHOUT ROWID;

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
CREATE INDEX calls_by_tool ON calls (owner, name, at, id);
CREATE INDEX calls_failed ON calls (owner, at, id) WHERE status NOT IN ('open', 'success');
DROP INDEX calls_open;
CREATE INDEX calls_open ON calls (owner, at, id) WHERE state <> 'done';
"""

_BROWSERS: Final = """
CREATE TABLE browser_tools (                  -- what clients over HTTP offered (graph.md 3)
    client TEXT NOT NULL,                     -- how its token's hash begins
    set_id TEXT NOT NULL,                     -- a hash of what a request brought; empty: what was set up
    tools  BLOB NOT NULL,                     -- a JSON list of OfferedTool
    at     REAL NOT NULL,
    PRIMARY KEY (client, set_id)
) WITHOUT ROWID;
CREATE TRIGGER token_takes_its_browser_tools_along AFTER UPDATE OF revoked ON tokens
WHEN NEW.revoked IS NOT NULL BEGIN
    DELETE FROM browser_tools WHERE client = substr(NEW.hash, 1, 16);
END;

CREATE TABLE memories (                       -- what clients ask to remember (graph.md 9.5)
    id       TEXT PRIMARY KEY,
    owner    TEXT NOT NULL,
    at       REAL NOT NULL,
    thread   TEXT NOT NULL,
    kind     TEXT NOT NULL,
    category TEXT NOT NULL,
    content  TEXT NOT NULL,
    metadata BLOB NOT NULL                    -- a JSON object
);
CREATE INDEX memories_by_owner ON memories (owner, at, id);

-- Places move up when messages are removed; a message's number stays, and is never another's (graph.md 8.3).
ALTER TABLE sessions ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN number INTEGER NOT NULL DEFAULT 0;  -- seq + sessions.removed when it was added
UPDATE messages SET number = seq;
"""

_PINS: Final = """
CREATE TABLE pins (                           -- definitions of tools from outside, as they were agreed to (SPEC T5)
    owner       TEXT NOT NULL,
    origin      TEXT NOT NULL,                -- as Origin writes itself
    name        TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition  BLOB NOT NULL,                -- a JSON object
    PRIMARY KEY (owner, origin, name)
) WITHOUT ROWID;
"""

_SKILLS: Final = """
ALTER TABLE sessions ADD COLUMN skills TEXT;  -- the names of the skills that are on, one a line; NULL: its agent's own
"""
_CONSENT: Final = """
ALTER TABLE calls ADD COLUMN waited REAL NOT NULL DEFAULT 0;        -- seconds for a person, beside `duration`
ALTER TABLE calls ADD COLUMN is_edited INTEGER NOT NULL DEFAULT 0;  -- 1: a person changed its arguments
"""
_JOURNAL_TIME: Final = """
CREATE TABLE journal_time (                   -- the time by which the journal ages; one row
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    believed REAL NOT NULL,
    seen     REAL NOT NULL
);
"""
_ARTIFACTS: Final = ""  # files of the state folder; a step all the same, so that both databases have the same numbers
_CHANNELS: Final = """
CREATE TABLE channel_senders (                -- people who may write to agents on a channel
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,                    -- the channel's own id of the person
    owner   TEXT NOT NULL,
    name    TEXT NOT NULL,
    at      REAL NOT NULL,
    PRIMARY KEY (channel, sender)
);
CREATE TABLE channel_chats (
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    owner   TEXT NOT NULL,
    session TEXT NOT NULL,
    PRIMARY KEY (channel, chat, owner)
);
CREATE TABLE channel_inbox (                  -- what came, until it is answered; ids and signatures for a day more
    channel TEXT NOT NULL,
    id      TEXT NOT NULL,
    proof   TEXT NOT NULL,
    owner   TEXT NOT NULL,
    at      REAL NOT NULL,
    number  BIGINT NOT NULL,                  -- the order inside one moment
    state   TEXT NOT NULL,
    body    BLOB,                             -- IncomingMessage, as JSON; NULL when it is done
    PRIMARY KEY (channel, id)
);
CREATE UNIQUE INDEX channel_inbox_proofs ON channel_inbox (channel, proof) WHERE proof <> '';
CREATE INDEX channel_inbox_open ON channel_inbox (channel, at, number) WHERE state <> 'done';
CREATE TABLE channel_positions (
    channel  TEXT PRIMARY KEY,
    position TEXT NOT NULL
);
"""
_NO_TRIGGER: Final = """
DROP TRIGGER message_moves_its_session;  -- the statement that adds a message moves its session first
"""
_SENT_PARTS: Final = """
ALTER TABLE channel_inbox ADD COLUMN sent BIGINT NOT NULL DEFAULT 0;  -- parts of a long answer that have gone out
"""
_DEVICE_TOKENS: Final = """
ALTER TABLE devices ADD COLUMN token TEXT NOT NULL DEFAULT '';  -- the hash of the token that it connected with last
"""
_TURN_ENDS: Final = """
-- How the turn ended with this message (TurnEnd, as JSON); NULL: with a whole answer, or it went on.
ALTER TABLE messages ADD COLUMN ended BLOB;
CREATE INDEX messages_ended ON messages (session, seq) WHERE ended IS NOT NULL;
"""
_FOR_NODES: Final = ""  # for several nodes, so in PostgreSQL alone; the numbers of the steps stay the same

MIGRATIONS: Final = (
    _CONVERSATIONS,
    _AROUND_THEM,
    _NO_REPLIES_IN_A_ROW,
    _DEVICES_AND_NOTES,
    _JOURNAL,
    _BROWSERS,
    _PINS,
    _SKILLS,
    _CONSENT,
    _JOURNAL_TIME,
    _ARTIFACTS,
    _CHANNELS,
    _FOR_NODES,
    _NO_TRIGGER,
    *(_FOR_NODES,) * 3,
    _SENT_PARTS,
    _DEVICE_TOKENS,
    _FOR_NODES,
    _TURN_ENDS,
    _FOR_NODES,
)
