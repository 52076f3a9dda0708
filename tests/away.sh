#!/usr/bin/env bash
# etcd stopped under load: what ruled INSERTs and all else take with and without it, until when, and how soon service returns.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
tests/away.sh [--rounds N] [--seconds N]: runs tests/away with a release build; fails where the times are not as good as they should be

  --rounds N    etcd runs, is frozen, runs, is dead, 4 s each (default 12)
  --seconds N   of the run that counts etcd's writes at batch = "auto" (default 120)
TEXT
}

rounds=12 seconds=120
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --rounds) rounds=${2:?"--rounds wants a number"} ;;
        --seconds) seconds=${2:?"--seconds wants a number"} ;;
        *) usage >&2; exit 2 ;;
    esac
    shift 2
done

export ROWSTAMP_AWAY_ROUNDS=$rounds ROWSTAMP_AWAY_SECONDS=$seconds
exec cargo test --release --locked --test campaigns away:: -- --test-threads=1
