"""The tables, as numbered steps: what all databases have. A database of version n has the first n steps.

A step never changes again. Types have SQLite's words, and a whole number of 64 bits is a `LONG`: each database has its
own words for them, and more in some steps (`migrations.py` of each).
"""

from collections.abc import Mapping
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
    seq     LONG NOT NULL,
    at      REAL NOT NULL,
    opens   TEXT,                             -- as sessions.open_calls
    body    BLOB NOT NULL,                    -- a Message of core, as JSON
    PRIMARY KEY (session, seq)
);

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
    size             LONG NOT NULL,
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
    seq       LONG NOT NULL,                  -- of the reply
    owner     TEXT NOT NULL,
    model     TEXT NOT NULL,
    day       TEXT NOT NULL,                  -- UTC
    input     LONG,                           -- NULL is unknown, here and below; never 0
    output    LONG,
    cached    LONG,
    reasoning LONG,
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

_DEVICES: Final = """
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
"""

_BROWSERS: Final = """
CREATE TABLE browser_tools (                  -- what clients over HTTP offered (graph.md 3)
    client TEXT NOT NULL,                     -- how its token's hash begins
    set_id TEXT NOT NULL,                     -- a hash of what a request brought; empty: what was set up
    tools  BLOB NOT NULL,                     -- a JSON list of OfferedTool
    at     REAL NOT NULL,
    PRIMARY KEY (client, set_id)
) WITHOUT ROWID;

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
ALTER TABLE messages ADD COLUMN number LONG NOT NULL DEFAULT 0;  -- seq + sessions.removed when it was added
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
_JOURNAL_TIME: Final = """
CREATE TABLE journal_time (                   -- the time by which the journal ages; one row
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    believed REAL NOT NULL,
    seen     REAL NOT NULL
);
"""
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

_LEFT_MESSAGES: Final = """
CREATE TABLE left_messages (                  -- versions: what going back has left behind (SPEC L8)
    session TEXT NOT NULL,
    branch  LONG NOT NULL,                    -- the number of the version's first message
    place   LONG NOT NULL,                    -- in the version, from 1
    number  LONG NOT NULL,
    at      REAL NOT NULL,
    opens   TEXT,
    body    BLOB NOT NULL,
    ended   BLOB,
    fork    LONG NOT NULL,                    -- the number of the message before the version; 0 at the beginning
    left_at REAL NOT NULL,
    PRIMARY KEY (session, branch, place)
);
CREATE INDEX left_messages_by_number ON left_messages (session, number);
"""
_CONTEXT: Final = """
CREATE TABLE context_marks (                  -- what models see of long conversations (SPEC L1); numbers of messages
    session    TEXT NOT NULL,
    number     LONG NOT NULL,                 -- the last of those below: without this message the row does not count
    short      LONG NOT NULL,                 -- the last one whose results are one line; 0 is none, here and below
    summarized LONG NOT NULL,                 -- the last one that the summary stands for
    made       LONG NOT NULL,                 -- the last one that there was
    room       LONG NOT NULL,                 -- characters of the results of one message behind `short`
    at         REAL NOT NULL,
    summary    TEXT NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE TABLE model_windows (                  -- what models can read, learned from their refusals
    model  TEXT PRIMARY KEY,
    tokens LONG NOT NULL
);
ALTER TABLE sessions ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;  -- how often its marks have moved
"""

_BUDGETS: Final = """
CREATE TABLE spending (                       -- what models did cost, in billionths of a dollar (SPEC L5)
    payer TEXT NOT NULL,                      -- empty: all; else `owner:NAME` or `agent:NAME`
    day   TEXT NOT NULL,
    nano  LONG NOT NULL,
    PRIMARY KEY (payer, day)
);
CREATE TABLE reservations (                   -- what requests under way may cost
    id      TEXT PRIMARY KEY,
    day     TEXT NOT NULL,
    owner   TEXT NOT NULL,
    agent   TEXT NOT NULL,
    session TEXT NOT NULL,
    nano    LONG NOT NULL,
    run     TEXT NOT NULL                     -- the lease of the process that asks
);
CREATE TABLE budget_additions (               -- what persons added to a budget for one day
    id    TEXT PRIMARY KEY,
    payer TEXT NOT NULL,
    day   TEXT NOT NULL,
    nano  LONG NOT NULL
);
CREATE INDEX budget_additions_by_payer ON budget_additions (payer, day);
CREATE TABLE budget_notes (                   -- the limits of which a person was told that they are nearly spent
    payer  TEXT NOT NULL,
    period TEXT NOT NULL,
    day    TEXT NOT NULL,                     -- with which the period began
    PRIMARY KEY (payer, period, day)
);
CREATE TABLE budget_guard (                   -- one row: a reservation begins by taking it
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    number LONG NOT NULL
);
INSERT INTO budget_guard (id, number) VALUES (1, 0);
CREATE TABLE largest_replies (                -- tokens of the largest reply of each model
    model  TEXT PRIMARY KEY,
    output LONG NOT NULL
);
INSERT INTO largest_replies (model, output)
    SELECT model, MAX(output) FROM usage WHERE output IS NOT NULL GROUP BY model;
"""

_RESPONSES: Final = """
CREATE TABLE responses (                      -- answers that clients of OpenAI's API ask for again by their ids
    id      TEXT PRIMARY KEY,
    owner   TEXT NOT NULL,
    client  TEXT NOT NULL,                    -- of its token
    session TEXT NOT NULL,
    length  LONG NOT NULL,                    -- of the session when the answer ended; 0: it has not
    body    BLOB NOT NULL,                    -- JSON, as the client gets it
    input   BLOB NOT NULL,                    -- a JSON list of items
    at      REAL NOT NULL
);
CREATE INDEX responses_by_session ON responses (session);
"""

_FLAGS: Final = """
ALTER TABLE sessions ADD COLUMN kind TEXT NOT NULL DEFAULT 'chat';     -- SessionKind
ALTER TABLE sessions ADD COLUMN pinned BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE sessions ADD COLUMN archived BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE sessions ADD COLUMN model TEXT NOT NULL DEFAULT '';        -- empty: that of its agent
ALTER TABLE sessions ADD COLUMN deleted_at REAL;                       -- hidden since then; removed a little later
CREATE INDEX sessions_pinned ON sessions (owner, active, id) WHERE pinned;
CREATE INDEX sessions_archived ON sessions (owner, active, id) WHERE archived;
CREATE INDEX sessions_deleted ON sessions (id, deleted_at) WHERE deleted_at IS NOT NULL;

-- Messages are indexed a little later than they are stored: these columns tell what is not in `searched` yet.
ALTER TABLE sessions ADD COLUMN indexed LONG NOT NULL DEFAULT 0;       -- the number up to which its messages are
ALTER TABLE sessions ADD COLUMN name_indexed BOOLEAN NOT NULL DEFAULT FALSE;
"""
_FLAGS_WITHOUT_TIME: Final = """
DROP INDEX sessions_pinned;                   -- a message moved a row in it; few sessions are pinned or archived
DROP INDEX sessions_archived;
CREATE INDEX sessions_pinned ON sessions (owner, id) WHERE pinned;
CREATE INDEX sessions_archived ON sessions (owner, id) WHERE archived;
"""

_ASKED_BY: Final = """
ALTER TABLE calls ADD COLUMN asked_by BLOB;                            -- AskingModel, as JSON; NULL: no model asked
"""

_PUSH: Final = """
CREATE TABLE push_subscriptions (             -- browsers that get notifications (SPEC J4)
    id           TEXT PRIMARY KEY,
    owner        TEXT NOT NULL,
    token        TEXT NOT NULL,               -- the hash of the token that it was made with: both end together
    endpoint     TEXT NOT NULL,
    p256dh       TEXT NOT NULL,
    auth         TEXT NOT NULL,
    label        TEXT NOT NULL,
    created      REAL NOT NULL,
    last_success REAL
);
CREATE UNIQUE INDEX push_subscriptions_by_owner ON push_subscriptions (owner, endpoint);
CREATE TABLE push_secret (                    -- one row: the key of this gateway at push services is made of it
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    secret BLOB NOT NULL
);
"""

_SCHEDULES: Final = """
CREATE TABLE schedules (
    id       TEXT PRIMARY KEY,
    owner    TEXT NOT NULL,
    token    TEXT NOT NULL,                   -- the hash of its maker's; empty: all of the owner's count
    plan     BLOB NOT NULL,                   -- SchedulePlan, as JSON
    maker    BLOB NOT NULL,                   -- Maker, as JSON
    created  REAL NOT NULL,
    next     REAL,                            -- when it is due; NULL: never again, or it is paused
    paused   TEXT NOT NULL,                   -- why; empty: it is not
    failures LONG NOT NULL                    -- runs in a row that have failed
);
CREATE INDEX schedules_due ON schedules (next) WHERE next IS NOT NULL;
CREATE INDEX schedules_by_owner ON schedules (owner);
CREATE TABLE schedule_runs (                  -- a row for each due time that was run, or told as missed
    schedule TEXT NOT NULL,
    due      REAL NOT NULL,
    since    REAL NOT NULL,                   -- the first of the times that were missed before it
    began    REAL NOT NULL,
    session  TEXT NOT NULL,
    state    TEXT NOT NULL,                   -- RunState
    run      TEXT,                            -- the lease of the process that does it
    ended    REAL,
    reason   TEXT NOT NULL DEFAULT '',        -- RunEnd
    text     TEXT NOT NULL DEFAULT '',
    problem  TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (schedule, due)
);
CREATE INDEX schedule_runs_open ON schedule_runs (run) WHERE state <> 'done';
"""

_STEPS: Final = (
    _CONVERSATIONS,
    _AROUND_THEM,
    "",
    _DEVICES,
    "",
    _BROWSERS,
    _PINS,
    _SKILLS,
    "",
    _JOURNAL_TIME,
    "",
    _CHANNELS,
    *("",) * 5,
    _SENT_PARTS,
    _DEVICE_TOKENS,
    "",
    _TURN_ENDS,
    "",
    _LEFT_MESSAGES,
    _CONTEXT,
    _BUDGETS,
    _RESPONSES,
    _FLAGS,
    _FLAGS_WITHOUT_TIME,
    _ASKED_BY,
    _PUSH,
    _SCHEDULES,
)


def steps_of(words: Mapping[str, str], own: Mapping[int, str]) -> tuple[str, ...]:
    """Return all steps of a database. `own`: what it has alone in a step, by the number of the step."""
    steps = [step + own.get(number, "") for number, step in enumerate(_STEPS, 1)]
    for word, meaning in words.items():
        steps = [step.replace(word, meaning) for step in steps]
    return tuple(steps)
