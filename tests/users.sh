#!/usr/bin/env bash
# Users of the store lose their rights under load: at three proxies, by Redis and by SQL, while members of etcd are killed.
set -uo pipefail

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HERE=$TESTS/users
# shellcheck source=tests/users/python.sh
. "$HERE/python.sh"

ROUNDS=12 KILLS=on SEED=$RANDOM VERBOSE=''

usage() {
    cat <<USAGE
tests/users.sh [options]: a line for each check, then "N passed, N failed, N skipped"; ends with 1 if any failed, 2 for usage

Each round makes a user. Nine connections draw ids as this user: three at each of three proxies, by password, by token and by SQL. One
member of etcd is killed meanwhile. Then the right, the user, the password or the token goes, and no connection that it concerns may get
an id a second later. At the end: quotas, and a search for all passwords and tokens in what the proxies and etcd have written or say.

  --rounds N       (default $ROUNDS)
  --kills on|off   whether a member of etcd is killed in each round (default $KILLS)
  --seed N         repeats the choices of an earlier run, which it printed
  --verbose        also print what the console answered to statements that had to be sent again

  ROWSTAMP_BIN     a built rowstamp; else \`cargo build --release\` makes one
About 8 seconds a round. The first run installs redis-py and PyMySQL into users/target.
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --verbose) VERBOSE=--verbose; shift; continue ;;
        --rounds | --kills | --seed) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --rounds) ROUNDS=$2 ;;
        --kills) KILLS=$2 ;;
        --seed) SEED=$2 ;;
    esac
    shift 2
done
[[ $KILLS == on || $KILLS == off ]] || { say "--kills is on or off"; exit 2; }
[[ $ROUNDS =~ ^[0-9]+$ && $SEED =~ ^[0-9]+$ ]] || { say "--rounds and --seed want numbers"; exit 2; }

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
campaign rights --rounds "$ROUNDS" --kills "$KILLS" --seed "$SEED" $VERBOSE; exit
