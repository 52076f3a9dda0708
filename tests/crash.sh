#!/usr/bin/env bash
# 300 kill -9 of the proxy under load, on MariaDB and on MySQL 9: no id issued twice, every acknowledged row is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
tests/crash.sh [--crashes N] [--seed N]: runs tests/crash with a release build

  --crashes N   kills of the proxy, on each server (default 300)
  --seed N      repeats the times of an earlier run, which it printed
TEXT
}

crashes=300 seed=
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --crashes) crashes=${2:?"--crashes wants a number"} ;;
        --seed) seed=${2:?"--seed wants a number"} ;;
        *) usage >&2; exit 2 ;;
    esac
    shift 2
done

export ROWSTAMP_CRASHES=$crashes
[ -z "$seed" ] || export ROWSTAMP_SEED=$seed
exec cargo test --release --locked --test campaigns crash:: -- --test-threads=1
