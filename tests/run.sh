#!/usr/bin/env bash
# Runs all tests. `tests/run.sh --help` tells the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin

usage() {
    cat <<'TEXT'
Usage: tests/run.sh [--drivers | --help]

Installs what is missing (tests/install.sh), then runs cargo fmt --check, clippy, cargo doc and cargo test, each of them
whatever became of the others. Servers are private ones in temporary folders; nothing is left running.
Ends with "N passed, N failed, N skipped", and with 1 if anything failed. A test that this machine has no server for says
SKIPPED: each such line counts as one.

  --drivers   run the driver programs of tests/drivers instead
  --help      this text

  ROWSTAMP_SID_ROOT   where MySQL 9 lives or is put (default /var/tmp/rowstamp-sid)
  CI=true             lack of MariaDB or etcd is a failure and not a SKIPPED
TEXT
}

PASSED=0 FAILED=0 SKIPPED=0

phase() {
    printf '== %s (at %d s)\n' "$*" "$SECONDS" >&2
}

# check NAME COMMAND...: counts as one test.
check() {
    phase "$1"
    if "${@:2}"; then
        PASSED=$((PASSED + 1))
    else
        FAILED=$((FAILED + 1))
        echo "FAILED: $1" >&2
    fi
}

# All of cargo test, counted by the lines in which libtest sums up each crate.
cargo_test() {
    local status=0 passed failed skipped
    phase test
    # Most tests wait for servers and clocks: one more than there are cores (tests/serve: 395 s, not 534 s).
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))}
    cargo test --locked --no-fail-fast 2>&1 | tee "$log" || status=$?
    read -r passed failed skipped < <(awk '
        /^test result: / { passed += $4; failed += $6; skipped += $8 }
        /^SKIPPED: / { skipped++ }
        END { print passed + 0, failed + 0, skipped + 0 }' "$log")
    # A crate that was not built, or ended before its tests did, has no line.
    if [[ $status != 0 && $failed == 0 ]]; then failed=1; fi
    PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed)) SKIPPED=$((SKIPPED + skipped))
}

main() {
    case ${1:-} in
        '' | --drivers) ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    phase install
    tests/install.sh
    if [[ ${1:-} == --drivers ]]; then
        phase drivers
        exec tests/drivers/run.sh
    fi
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    check format cargo fmt --check
    check "format of fuzz" cargo fmt --check --manifest-path fuzz/Cargo.toml
    check clippy cargo clippy --locked --all-targets --features test-util -- -D warnings
    check "clippy of fuzz" cargo clippy --locked --manifest-path fuzz/Cargo.toml \
        --target-dir "${CARGO_TARGET_DIR:-target}" -- -D warnings
    check "mutants fit" tests/mutants.sh --check
    check documentation env RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items
    cargo_test
    phase end
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
    [[ $FAILED == 0 ]]
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main "$@"; exit
