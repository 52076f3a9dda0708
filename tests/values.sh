#!/usr/bin/env bash
# The value matrix (tests/values): what INSERT stores, natively and through the proxy, for every type of column and every way to
# make a value. `tests/values.sh --help` tells the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin

usage() {
    cat <<'TEXT'
Usage: tests/values.sh [--percent N] [--seed N] [--filter TEXT] [--server mariadb|mysql9] [--told N]

  --percent N    of the statements beyond one for each value, sql_mode and IGNORE (default 1; 100 runs all)
  --seed N       draws again what an earlier run drew
  --filter TEXT  the values whose name holds it
  --server NAME  one server
  --told N       prints so many differences of each kind
TEXT
}

export ROWSTAMP_VALUES_PERCENT=1
while (($#)); do
    case $1 in
        --percent) export ROWSTAMP_VALUES_PERCENT=$2 ;;
        --seed) export ROWSTAMP_VALUES_SEED=$2 ;;
        --filter) export ROWSTAMP_VALUES_FILTER=$2 ;;
        --server) export ROWSTAMP_VALUES_SERVER=$2 ;;
        --told) export ROWSTAMP_VALUES_TOLD=$2 ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    shift 2
done
exec cargo test --locked --test e2e values:: -- --nocapture
