#!/usr/bin/env bash
# Faults on the wires on either side of the proxy, on MariaDB and on MySQL 9: no statement runs twice, nothing hangs, nothing leaks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
tests/faults.sh [--faults N] [--seed N]: runs tests/faults with a release build

  --faults N   drawn at random, on each server (default 1000), beside the cuts at every byte
  --seed N     repeats the faults of an earlier run, which it printed
TEXT
}

faults=1000 seed=
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --faults) faults=${2:?"--faults wants a number"} ;;
        --seed) seed=${2:?"--seed wants a number"} ;;
        *) usage >&2; exit 2 ;;
    esac
    shift 2
done

export ROWSTAMP_FAULTS=$faults
[ -z "$seed" ] || export ROWSTAMP_SEED=$seed
exec cargo test --release --locked --test campaigns faults:: -- --test-threads=1 --nocapture
