#!/usr/bin/env bash
# Runs all tests. `tests/run.sh --help` tells the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'TEXT'
Usage: tests/run.sh [--drivers | --help]

Installs what is missing (tests/install.sh), then runs: cargo fmt --check, clippy, cargo doc, cargo test.
Servers are private ones in temporary folders; nothing is left running.

  --drivers   run the driver programs of tests/drivers instead
  --help      this text

  ROWSTAMP_SID_ROOT   where MySQL 9 lives or is put (default /var/tmp/rowstamp-sid)
  CI=true             lack of MariaDB or etcd is a failure and not a SKIPPED
TEXT
}

# The last phase's own summary is the last thing printed, so each time stands at a phase's beginning.
phase() {
    printf '== %s (at %d s)\n' "$*" "$SECONDS" >&2
}

drivers=false
case ${1:-} in
    '') ;;
    --drivers) drivers=true ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
esac

phase install
tests/install.sh

if $drivers; then
    phase drivers
    exec tests/drivers/run.sh
fi

phase format
cargo fmt --check

phase clippy
cargo clippy --locked --all-targets -- -D warnings

phase documentation
RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items

phase test
exec cargo test --locked --no-fail-fast
