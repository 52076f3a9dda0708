#!/usr/bin/env bash
# An outage behind HAProxy: etcd frozen, a table used up, the primary switched, a proxy killed. No SELECT may be lost.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
tests/outage.sh [--seconds N]: runs tests/outage; installs HAProxy where it is missing

  --seconds N   how long etcd is frozen (default 60)
TEXT
}

seconds=60
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --seconds) seconds=${2:?"--seconds wants a number"} ;;
        *) usage >&2; exit 2 ;;
    esac
    shift 2
done

tests/install.sh haproxy
export ROWSTAMP_OUTAGE_SECONDS=$seconds
exec cargo test --locked --test campaigns outage:: -- --nocapture
