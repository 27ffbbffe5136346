"""PUSH: notifications in browsers and on phones, by Web Push (SPEC J4).

Holds:   `push.py`, who is told of what and when, and answers that come back (read it first); `sender.py`, one
         notification on its way to a push service, and `encryption.py`, its bytes; both load with the first one.
Imports: gateway.entry, gateway.sessions, net, wire, config, core.
To add:  something to be told is a method of `Push` that makes a `Notice`; its kind is in `wire/rest/push.py`.
         What the browser does with it: `web/src/push/worker.ts`.
"""
