#!/usr/bin/env bash
# 20 failovers of MariaDB under load: rows that were never replicated come back by their ids, and none collides.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
tests/failover.sh [--times N] [--seed N]: runs tests/failover with a release build

  --times N   drills, by turns with one proxy and its embedded store, and with two proxies and etcd; of four, two kill
              the primary and two stop it (default 20)
  --seed N    repeats the times of an earlier run, which it printed
TEXT
}

times=20 seed=
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --times) times=${2:?"--times wants a number"} ;;
        --seed) seed=${2:?"--seed wants a number"} ;;
        *) usage >&2; exit 2 ;;
    esac
    shift 2
done

export ROWSTAMP_DRILLS=$times
[ -z "$seed" ] || export ROWSTAMP_SEED=$seed
exec cargo test --release --locked --test campaigns failover::
