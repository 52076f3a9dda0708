#!/bin/sh
# 200,000 INSERTs drawn from a grammar, natively and through the proxy, on both servers: about half an hour.
# tests/random.sh [STATEMENTS [SEED]]
set -eu
cd "$(dirname "$0")/.."
export ROWSTAMP_RANDOM_STATEMENTS="${1:-200000}"
[ $# -lt 2 ] || export ROWSTAMP_RANDOM_SEED="$2"
exec nice -n 15 cargo test --test e2e random::drawn -- --nocapture
