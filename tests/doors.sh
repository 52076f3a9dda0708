#!/usr/bin/env bash
# The same ids by INSERTs, calls in SQL, the Redis protocol and HTTP at once, at three proxies on etcd that are killed.
set -uo pipefail

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HERE=$TESTS/users
# shellcheck source=tests/users/python.sh
. "$HERE/python.sh"

IDS=200000 KILLS=6 MOST=4000 SEED=$RANDOM

usage() {
    cat <<USAGE
tests/doors.sh [options]: a line for each check, then "N passed, N failed, N skipped"; ends with 1 if any failed, 2 for usage

Thirty connections draw ids of a sequence and of a timestamp generator: ten at each of three proxies, by INSERTs, calls in SQL, the Redis
protocol and HTTP, as a user with the right, a user who never has it, and a user whose right is given and taken away all the time. Proxies
are killed (kill -9) and started again. No id may come twice, no row of an INSERT that was answered may be missing, and nobody may get an
id without the right.

  --ids N     at least so many ids (default $IDS)
  --kills N   kill -9 of a proxy (default $KILLS)
  --most N    ids of one request, at most (default $MOST)
  --seed N    repeats the choices of an earlier run, which it printed
  --full      10000000 ids, 100 kills: half an hour

  ROWSTAMP_BIN     a built rowstamp; else \`cargo build --release\` makes one
The first run installs redis-py and PyMySQL into users/target.
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --full) IDS=10000000 KILLS=100; shift; continue ;;
        --ids | --kills | --most | --seed) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    [[ $2 =~ ^[0-9]+$ ]] || { say "$1 wants a number"; exit 2; }
    case $1 in
        --ids) IDS=$2 ;;
        --kills) KILLS=$2 ;;
        --most) MOST=$2 ;;
        --seed) SEED=$2 ;;
    esac
    shift 2
done

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
campaign doors --ids "$IDS" --kills "$KILLS" --most "$MOST" --seed "$SEED"; exit
