#!/usr/bin/env bash
# Runs every test that decides whether a change is right. `tests/run.sh --help` tells the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin
# shellcheck source=tests/room.sh
. tests/room.sh

usage() {
    cat <<'TEXT'
Usage: tests/run.sh [--only CRATE [TEST...] | --help]

Installs what is missing (tests/install.sh), then runs cargo fmt --check, clippy, cargo doc, the tests and one driver program of each
language that is here, each of them whatever became of the others. Servers are private ones in temporary folders; nothing is left
running, also where the run is cut off. About 20 minutes on 2 cores, builds included. What samples, measures or breaks things at
random is not in it: tests/campaigns.sh.

A test that fails is run once more, alone. Does it pass then, it is told as "FLAKY: name" and does not fail the run, unless more than 3
are; it is a fault of the test nevertheless. What fails is told as "FAILED: name" before the last line. That line is
"N passed, N failed, N skipped", and ", N flaky" where there are any. Ends with 1 if anything failed. A test that this machine has no
server for says SKIPPED: each such line counts as one.

  --only CRATE [TEST...]   the tests of one crate (lib, bin, library, serve, e2e, tidy) whose names contain one of these
  --help                   this text

  ROWSTAMP_SID_ROOT   where MySQL 9 lives or is put (default /var/tmp/rowstamp-sid)
  CI=true             lack of MariaDB or etcd is a failure and not a SKIPPED
TEXT
}

# No more of them, or it is the machine or the change, and not a test.
FLAKY_MAX=3
# A crate's tests take 7 minutes at most: what takes this long hangs.
CRATE_SECONDS_MAX=1500
# One of each language that the machine has; the rest is a campaign.
DRIVERS=pymysql,node-mysql2,connector-j,go-sql-driver

PASSED=0 SKIPPED=0
FAILED=() FLAKY=()

phase() {
    printf '== %s (at %d s)\n' "$*" "$SECONDS" >&2
}

# bound COMMAND...: it ends with this shell, however that ends.
bound() {
    exec setpriv --pdeathsig KILL "$@"
}

# check NAME COMMAND...: counts as one test.
check() {
    phase "$1"
    if (bound "${@:2}"); then
        PASSED=$((PASSED + 1))
    else
        FAILED+=("$1")
    fi
}

# Builds all crates of tests, and tells their programs: a line each, "NAME PATH".
build_tests() {
    setpriv --pdeathsig KILL cargo test --locked --no-run 2>&1 | tee >(cat >&2) | sed -nE '
        s,^ *Executable unittests src/lib.rs \((.*)\)$,lib \1,p
        s,^ *Executable unittests src/main.rs \((.*)\)$,bin \1,p
        s,^ *Executable tests/([a-z0-9_]+)(/main)?\.rs \((.*)\)$,\1 \3,p'
}

# What a lane runs, one after the other, beside the other lane. CRATE THREADS [ARGUMENT...]. Most tests wait for servers: so there are
# more threads than cores. Those that send 64 MiB wait for each other (serve/rig, `alone`), and would have all threads wait with them.
LANES=(
    "serve 1 large:: compressed::;library 2;bin 1;tidy 1;e2e 2;lib 2"
    "serve 3 --skip large:: --skip compressed::"
)

# run_lane NUMBER: what each of its runs prints is in $work/NUMBER.N.log, its exit code in .status.
run_lane() {
    local run runs crate threads arguments program n=0
    IFS=';' read -ra runs <<<"${LANES[$1]}"
    for run in "${runs[@]}"; do
        read -r crate threads arguments <<<"$run"
        program=$(program_of "$crate") || continue
        n=$((n + 1))
        phase "tests of $crate $arguments"
        # shellcheck disable=SC2086 # words
        run_program "$work/$1.$n" "$crate" "$program" "--test-threads=$threads" $arguments
    done
}

# run_program RESULT CRATE PROGRAM [ARGUMENT...]: prints what it said when it has ended, so that nothing comes between.
run_program() {
    local status=0
    echo "$2" >"$1.crate"
    setpriv --pdeathsig KILL timeout --foreground --kill-after 10 "$CRATE_SECONDS_MAX" setpriv --pdeathsig KILL "${@:3}" >"$1.log" 2>&1 || status=$?
    echo "$status" >"$1.status"
    flock "$work/printing" cat "$1.log"
}

program_of() { # CRATE
    local path
    path=$(sed -n "s/^$1 //p" "$work/programs")
    [[ -n $path ]] && echo "$path"
}

# The names that libtest lists at its end: the lines of the tests themselves may be cut by other output.
failed_names() { # LOG
    awk '/^failures:$/ { at = NR; n = 0; next } at && /^    [^ ]+$/ { names[n++] = $1; next } /^$/ { next } { at = 0 }
        END { for (i = 0; i < n; i++) print names[i] }' "$1"
}

# judge RESULT: counts what a run has told, and runs each test that failed once more.
judge() {
    local crate status passed failed name
    local -a names
    crate=$(<"$1.crate") status=$(cat "$1.status" 2>/dev/null || echo none)
    read -r passed failed < <(awk '/^test result: / { passed += $4; failed += $6 } END { print passed + 0, failed + 0 }' "$1.log")
    SKIPPED=$((SKIPPED + $(grep -c '^SKIPPED: ' "$1.log" || true)))
    PASSED=$((PASSED + passed))
    [[ $status != 0 ]] || return 0
    mapfile -t names < <(failed_names "$1.log")
    # It ended before its tests did, or hung: there is no list.
    if [[ $failed == 0 || ${#names[@]} != "$failed" ]]; then
        FAILED+=("$crate, which ended with $status before its tests did")
        return 0
    fi
    for name in "${names[@]}"; do
        phase "$crate: $name once more, alone"
        run_program "$work/again" "$crate" "$(program_of "$crate")" --exact "$name" --test-threads=1
        # A name that is not there any more is no test that passes.
        if [[ $(<"$work/again.status") == 0 ]] && grep -q '^test result: ok. 1 passed' "$work/again.log"; then
            FLAKY+=("$crate: $name")
        else
            FAILED+=("$crate: $name")
        fi
    done
}

run_tests() {
    local crate lane pid pids=() result
    phase build
    if ! build_tests >"$work/programs"; then
        FAILED+=("the build of the tests")
        return 0
    fi
    while read -r crate _; do
        [[ ";$(IFS=';'; echo "${LANES[*]}")" == *";$crate "* ]] || FAILED+=("$crate, which is in no lane of tests/run.sh")
    done <"$work/programs"
    # First, because tests/console uses what they install.
    run_drivers "${CARGO_TARGET_DIR:-$PWD/target}/debug/rowstamp"
    for lane in "${!LANES[@]}"; do
        setpriv --pdeathsig KILL bash tests/run.sh --lane "$work" "$lane" "$SECONDS" &
        pids+=("$!")
    done
    for pid in "${pids[@]}"; do wait "$pid" || FAILED+=("a lane of tests, which ended with $?"); done
    for result in "$work"/*.*.log; do judge "${result%.log}"; done
}

# The tests of one crate, or some of them.
run_only() { # CRATE [TEST...]
    phase build
    build_tests >"$work/programs" || { FAILED+=("the build of the tests"); return 0; }
    program_of "$1" >/dev/null || { echo "there is no crate of tests $1" >&2; exit 2; }
    run_program "$work/0.1" "$1" "$(program_of "$1")" "${@:2}"
    judge "$work/0.1"
}

# The driver programs count as tests of their own.
run_drivers() {
    local status=0 passed=0 skipped=0
    phase drivers
    ROWSTAMP_BIN=$1 setpriv --pdeathsig TERM bash tests/drivers/run.sh --only "$DRIVERS" >"$work/drivers.log" 2>&1 || status=$?
    cat "$work/drivers.log"
    read -r passed skipped < <(awk '/^[0-9]+ passed, [0-9]+ failed/ { print $1, $5 }' "$work/drivers.log") || true
    PASSED=$((PASSED + passed)) SKIPPED=$((SKIPPED + skipped))
    [[ $status == 0 ]] || FAILED+=("drivers")
}

# tell WORD NAME...
tell() {
    local name
    for name in "${@:2}"; do printf '%s: %s\n' "$1" "$name"; done
}

finish() {
    phase end
    tell FLAKY "${FLAKY[@]}"
    if [[ ${#FLAKY[@]} -gt $FLAKY_MAX ]]; then FAILED+=("${#FLAKY[@]} tests are flaky, more than $FLAKY_MAX"); fi
    tell FAILED "${FAILED[@]}"
    local flaky=
    [[ ${#FLAKY[@]} == 0 ]] || flaky=", ${#FLAKY[@]} flaky"
    echo "$PASSED passed, ${#FAILED[@]} failed, $SKIPPED skipped$flaky"
    [[ ${#FAILED[@]} == 0 && $PASSED -gt 0 ]]
    exit
}

main() {
    case ${1:-} in
        '') ;;
        --only) [[ $# -gt 1 ]] || { usage >&2; exit 2; } ;;
        # A lane is a process of its own, which ends with the run.
        --lane) work=$2 SECONDS=$4; run_lane "$3"; exit ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    need_room
    phase install
    tests/install.sh
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    if [[ ${1:-} == --only ]]; then
        run_only "${@:2}"
        finish
    fi
    check format cargo fmt --check
    check "format of fuzz" cargo fmt --check --manifest-path fuzz/Cargo.toml
    check clippy cargo clippy --locked --lib --bins --tests --benches --features test-util -- -D warnings
    # Beside --tests it would be passed over: Cargo.toml says that `cargo test` leaves it out.
    check "clippy of campaigns" cargo clippy --locked --test campaigns --features test-util -- -D warnings
    check "mutants fit" tests/mutants.sh --check
    check documentation env RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items
    run_tests
    finish
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main "$@"; exit
