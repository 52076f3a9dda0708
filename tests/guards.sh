#!/usr/bin/env bash
# Proxies of all kinds of store on one table, while their locks are killed: no id twice. A short run is one of all tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin

usage() {
    cat <<'TEXT'
tests/guards.sh [--steps N] [--seed N] [--server NAME]

Runs tests/guards on MariaDB and on MySQL 9. Ends with cargo's own summary, and with 1 if an id came twice.

  --steps N       starts, freezes, kills and stops of proxies, on each server (default 10000, some 50 minutes)
  --seed N        repeats the draws of an earlier run, which it printed
  --server NAME   one server only: mariadb or mysql9

  ROWSTAMP_BIN    a proxy that is built already
TEXT
}

export ROWSTAMP_GUARDS_STEPS=10000
while [[ $# -gt 0 ]]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --steps) ROWSTAMP_GUARDS_STEPS=${2:?"--steps wants a number"}; shift 2 ;;
        --seed) export ROWSTAMP_GUARDS_SEED=${2:?"--seed wants a number"}; shift 2 ;;
        --server)
            [[ ${2-} == mariadb || ${2-} == mysql9 ]] || { echo "--server wants mariadb or mysql9" >&2; exit 2; }
            export ROWSTAMP_GUARDS_SERVER=$2
            shift 2
            ;;
        *) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
done

exec cargo test --locked --test campaigns guards:: -- --nocapture
