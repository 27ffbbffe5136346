"""The tables, as numbered steps: those of SQLite in the SQL of PostgreSQL, and more. A step never changes again.

Texts are compared byte by byte, as SQLite does, whatever the language of the database.
"""

from typing import Final

from handspan.store.postgres.node_tables import CLIENTS_SINCE, NODE_LEASES, NODES, NUMBERED, ONE_LABEL, SERVERS

_CONVERSATIONS: Final = """
CREATE TABLE leases (                         -- the processes that use this database
    id         TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,                 -- for people: where it runs
    is_gateway BOOLEAN NOT NULL,
    backend    INTEGER NOT NULL,              -- the server's process for the connection that holds the lock
    taken      TIMESTAMPTZ NOT NULL,
    seen       TIMESTAMPTZ NOT NULL
);
CREATE TABLE documents (                      -- small things that are read and written as a whole
    name TEXT PRIMARY KEY,
    body BYTEA NOT NULL
);

CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    owner      TEXT NOT NULL,
    agent      TEXT NOT NULL,
    name       TEXT NOT NULL,
    created    DOUBLE PRECISION NOT NULL,
    active     DOUBLE PRECISION NOT NULL,
    state      TEXT NOT NULL DEFAULT 'idle',
    run        TEXT,
    length     INTEGER NOT NULL DEFAULT 0,
    open_calls TEXT
);
CREATE INDEX sessions_by_owner ON sessions (owner, active, id);
CREATE INDEX sessions_running ON sessions (run) WHERE state = 'running';

CREATE TABLE messages (
    session TEXT NOT NULL,
    seq     BIGINT NOT NULL,
    at      DOUBLE PRECISION NOT NULL,
    opens   TEXT,
    body    BYTEA NOT NULL,
    PRIMARY KEY (session, seq)
);

CREATE TABLE calls (
    id               TEXT PRIMARY KEY,
    owner            TEXT NOT NULL,
    session          TEXT NOT NULL,
    agent            TEXT NOT NULL,
    name             TEXT NOT NULL,
    tool             BYTEA NOT NULL,
    arguments        BYTEA NOT NULL,
    arguments_form   TEXT NOT NULL,
    at               DOUBLE PRECISION NOT NULL,
    size             BIGINT NOT NULL,
    state            TEXT NOT NULL,
    run              TEXT,
    expires_at       DOUBLE PRECISION,
    duration         DOUBLE PRECISION NOT NULL DEFAULT 0,
    result           BYTEA,
    attachments      BYTEA,
    true_result      BYTEA,
    true_attachments BYTEA
);
CREATE INDEX calls_by_owner ON calls (owner, at, id);
CREATE INDEX calls_by_session ON calls (session, at, id);

CREATE TABLE questions (
    id          TEXT PRIMARY KEY,
    call_id     TEXT NOT NULL,
    owner       TEXT NOT NULL,
    session     TEXT NOT NULL,
    asked_at    DOUBLE PRECISION NOT NULL,
    expires_at  DOUBLE PRECISION NOT NULL,
    body        BYTEA NOT NULL,
    answer      BYTEA,
    answered_at DOUBLE PRECISION
);
CREATE INDEX questions_by_call ON questions (call_id);
CREATE INDEX questions_by_session ON questions (session);
CREATE INDEX questions_open ON questions (owner, asked_at) WHERE answer IS NULL;
"""

_AROUND_THEM: Final = """
CREATE TABLE usage (
    session   TEXT NOT NULL,
    seq       BIGINT NOT NULL,
    owner     TEXT NOT NULL,
    model     TEXT NOT NULL,
    day       TEXT NOT NULL,
    input     BIGINT,
    output    BIGINT,
    cached    BIGINT,
    reasoning BIGINT,
    cost      DOUBLE PRECISION,
    PRIMARY KEY (session, seq)
);
CREATE INDEX usage_by_owner ON usage (owner, day);

CREATE TABLE agents (
    owner TEXT NOT NULL,
    name  TEXT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (owner, name)
);

CREATE TABLE tokens (
    hash      TEXT PRIMARY KEY,
    owner     TEXT NOT NULL,
    scopes    BYTEA NOT NULL,
    label     TEXT NOT NULL,
    created   DOUBLE PRECISION NOT NULL,
    last_seen DOUBLE PRECISION,
    revoked   DOUBLE PRECISION
);
CREATE INDEX tokens_by_owner ON tokens (owner, created);

CREATE TABLE rules (
    owner       TEXT NOT NULL,
    kind        TEXT NOT NULL,
    tool        TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    subject     TEXT NOT NULL,
    answer      BYTEA NOT NULL,
    at          DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (owner, kind, tool, fingerprint, subject)
);
"""

_NO_REPLIES_IN_A_ROW: Final = """
-- The first bytes of a body tell whether the message is a model's.
ALTER TABLE sessions ADD COLUMN ends_with_reply BOOLEAN NOT NULL DEFAULT FALSE;
-- One run for all messages of a statement.
CREATE FUNCTION message_moves_its_session() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    UPDATE sessions SET length = last.seq, active = last.at, open_calls = last.opens,
        ends_with_reply = substr(last.body, 1, 19) = convert_to('{"type":"assistant"', 'UTF8')
    FROM (SELECT DISTINCT ON (session) session, seq, at, opens, body FROM added ORDER BY session, seq DESC) AS last
    WHERE sessions.id = last.session;
    RETURN NULL;
END $function$;
CREATE TRIGGER message_moves_its_session AFTER INSERT ON messages
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION message_moves_its_session();
"""

_DEVICES_AND_NOTES: Final = """
CREATE TABLE devices (
    owner     TEXT NOT NULL,
    id        TEXT NOT NULL,
    label     TEXT NOT NULL,
    name      TEXT NOT NULL,
    last_seen DOUBLE PRECISION NOT NULL,
    tools     BYTEA NOT NULL,
    gone      BYTEA NOT NULL,
    changed   BYTEA NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE TABLE call_notes (
    rowid   BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    call_id TEXT NOT NULL REFERENCES calls (id) ON DELETE CASCADE,
    at      DOUBLE PRECISION NOT NULL,
    text    TEXT NOT NULL
);
CREATE INDEX call_notes_by_call ON call_notes (call_id);
"""

_JOURNAL: Final = """
-- How a call ended: 'open', 'success', or the code of its error, out of the first bytes of the envelope.
ALTER TABLE calls ADD COLUMN status TEXT GENERATED ALWAYS AS (CASE
    WHEN result IS NULL THEN 'open'
    WHEN substr(result, 1, 19) = '{"status":"success"'::bytea THEN 'success'
    ELSE encode(substr(
        substr(result, position('"code":"'::bytea IN result) + 8, 64), 1,
        position('"'::bytea IN substr(result, position('"code":"'::bytea IN result) + 8, 64)) - 1
    ), 'escape')
END) STORED;
CREATE INDEX calls_by_tool ON calls (owner, name, at, id);
CREATE INDEX calls_failed ON calls (owner, at, id) WHERE status NOT IN ('open', 'success');
CREATE INDEX calls_open ON calls (owner, at, id) WHERE state <> 'done';
"""

_BROWSERS: Final = """
CREATE TABLE browser_tools (
    client TEXT NOT NULL,
    set_id TEXT NOT NULL,
    tools  BYTEA NOT NULL,
    at     DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (client, set_id)
);
CREATE FUNCTION token_takes_its_browser_tools_along() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    DELETE FROM browser_tools WHERE client = substr(NEW.hash, 1, 16);
    RETURN NULL;
END $function$;
CREATE TRIGGER token_takes_its_browser_tools_along AFTER UPDATE OF revoked ON tokens
    FOR EACH ROW WHEN (NEW.revoked IS NOT NULL) EXECUTE FUNCTION token_takes_its_browser_tools_along();

CREATE TABLE memories (
    id       TEXT PRIMARY KEY,
    owner    TEXT NOT NULL,
    at       DOUBLE PRECISION NOT NULL,
    thread   TEXT NOT NULL,
    kind     TEXT NOT NULL,
    category TEXT NOT NULL,
    content  TEXT NOT NULL,
    metadata BYTEA NOT NULL
);
CREATE INDEX memories_by_owner ON memories (owner, at, id);

ALTER TABLE sessions ADD COLUMN removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
"""

_PINS: Final = """
CREATE TABLE pins (
    owner       TEXT NOT NULL,
    origin      TEXT NOT NULL,
    name        TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition  BYTEA NOT NULL,
    PRIMARY KEY (owner, origin, name)
);
"""

_SKILLS: Final = """
ALTER TABLE sessions ADD COLUMN skills TEXT;
"""
_CONSENT: Final = """
ALTER TABLE calls ADD COLUMN waited DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN is_edited BOOLEAN NOT NULL DEFAULT FALSE;
"""
_JOURNAL_TIME: Final = """
CREATE TABLE journal_time (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    believed DOUBLE PRECISION NOT NULL,
    seen     DOUBLE PRECISION NOT NULL
);
"""
_ARTIFACTS: Final = """
CREATE TABLE artifacts (
    id         TEXT PRIMARY KEY,
    owner      TEXT NOT NULL,
    session    TEXT NOT NULL,
    at         DOUBLE PRECISION NOT NULL,
    size       BIGINT NOT NULL,
    media_type TEXT NOT NULL,
    name       TEXT NOT NULL,
    place      TEXT NOT NULL,                 -- where the body is: 'rows' (artifact_chunks) or 'bucket'
    state      TEXT NOT NULL                  -- 'arriving', 'stored' or 'removed'; only a stored one is found
);
CREATE INDEX artifacts_by_owner ON artifacts (owner, session, at);
CREATE INDEX artifacts_by_age ON artifacts (at);

CREATE TABLE artifact_chunks (
    artifact TEXT NOT NULL REFERENCES artifacts ON DELETE CASCADE,
    number   INTEGER NOT NULL,
    body     BYTEA NOT NULL,
    PRIMARY KEY (artifact, number)
);
ALTER TABLE artifact_chunks ALTER COLUMN body SET STORAGE EXTERNAL; -- most are compressed already
"""
_CHANNELS: Final = """
CREATE TABLE channel_senders (
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    owner   TEXT NOT NULL,
    name    TEXT NOT NULL,
    at      DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (channel, sender)
);
CREATE TABLE channel_chats (
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    owner   TEXT NOT NULL,
    session TEXT NOT NULL,
    PRIMARY KEY (channel, chat, owner)
);
CREATE TABLE channel_inbox (
    channel TEXT NOT NULL,
    id      TEXT NOT NULL,
    proof   TEXT NOT NULL,
    owner   TEXT NOT NULL,
    at      DOUBLE PRECISION NOT NULL,
    number  BIGINT NOT NULL,
    state   TEXT NOT NULL,
    body    BYTEA,
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
DROP FUNCTION message_moves_its_session CASCADE;
"""
_SENT_PARTS: Final = """
ALTER TABLE channel_inbox ADD COLUMN sent BIGINT NOT NULL DEFAULT 0;
"""
_DEVICE_TOKENS: Final = """
ALTER TABLE devices ADD COLUMN token TEXT NOT NULL DEFAULT '';
"""
_TURN_ENDS: Final = """
ALTER TABLE messages ADD COLUMN ended BYTEA;
CREATE INDEX messages_ended ON messages (session, seq) WHERE ended IS NOT NULL;
"""

MIGRATIONS: Final = tuple(
    step.replace(" TEXT", ' TEXT COLLATE "C"')
    for step in (
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
        NODES,
        _NO_TRIGGER,
        NODE_LEASES,
        SERVERS,
        CLIENTS_SINCE,
        _SENT_PARTS,
        _DEVICE_TOKENS,
        ONE_LABEL,
        _TURN_ENDS,
        NUMBERED,
    )
)
