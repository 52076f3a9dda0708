#!/usr/bin/env bash
# Runs the campaigns: what samples, measures, breaks things at random, or runs other people's programs. `tests/campaigns.sh --help`
# tells the flags.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
PATH=$PATH:$HOME/.cargo/bin
# shellcheck source=tests/room.sh
. tests/room.sh

usage() {
    cat <<'TEXT'
Usage: tests/campaigns.sh [NAME...]
       tests/campaigns.sh --list | --help

Runs the campaigns that are named, or all of them, one after the other, each whatever became of the others. They are short here: each
is a script with flags of its own, for longer ones. After each stands "== NAME: N passed, N failed, N skipped, N s"; at the end all these
lines again, and their sum. Ends with 1 if anything failed.

  --list   the names, how many minutes each takes on 2 cores, what it shows, and its command

  ROWSTAMP_BIN   a proxy that is built already; else a release build is made first
TEXT
}

# NAME | MINUTES | WHAT IT SHOWS | COMMAND
CAMPAIGNS=(
    "drivers|2|the ids that drivers and ORMs of seven languages report are those in the table|tests/drivers/run.sh"
    "redis|3|eight clients of Redis draw ids by RESP2, RESP3, TLS and as clusters, and the examples of docs/redis.md|tests/redis.sh"
    "api|3|the examples of docs/http.md and docs/id-services.md, and requests that schemathesis makes up from the OpenAPI document|tests/api.sh"
    "users|3|what is taken from a user of the store ends at three proxies within a second while etcd answers; limits; no secret is shown|tests/users.sh"
    "doors|1|ids by INSERTs, calls, Redis and HTTP at once while three proxies are killed: none twice, none without the right|tests/doors.sh"
    "dumps|5|dumps of sakila, world, Django, WordPress and MediaWiki store what a native import stores|tests/drivers/dumps.sh"
    "console|3|both vendors' clients, PyMySQL and Connector/J at the console|cargo test --locked --test library console::clients"
    "suites|2|what passes of other people's suites without the proxy passes through it|tests/suites.sh --quick pymysql go_sql_driver"
    "wires|4|the bytes on both sides of the proxy are the same under mysql-test|tests/suites.sh --wire --short mariadb_test"
    "statements|2|INSERTs of the servers' own test files store what they store natively|tests/statements.sh"
    "strangers|2|ids by renames, loads, UPDATEs, routines, other writers: no row is replaced, no error beyond the native|tests/strangers.sh"
    "sysbench|3|under sysbench every row has its own id, and none is missing|tests/sysbench.sh --seconds 5"
    "restarts|2|restarts by takeover and SIGTERM break no transaction|tests/restarts.sh --restarts 10"
    "page|2|the page in a browser shows what /status.json says|tests/page.sh --load 20"
    "alerts|1|the alert rules in promtool and a real Prometheus|tests/alerts.sh"
    "outage|1|an outage behind HAProxy loses no SELECT|tests/outage.sh --seconds 10"
    "chaos|1|kills, freezes, clock jumps and partitions of a fleet: no id twice, none lost|tests/chaos.sh"
    "crash|7|kill -9 under load: no id twice, every acknowledged row is there|tests/crash.sh --crashes 20"
    "faults|1|wires that break at any byte: no statement runs twice|tests/faults.sh --faults 200"
    "failover|1|a promoted replica: rows that come back do not collide|tests/failover.sh --times 4"
    "away|3|what an etcd that is away costs INSERTs and all else|tests/away.sh --rounds 3 --seconds 30"
    "guards|1|proxies of all stores on one table while their locks are killed|tests/guards.sh --steps 40"
    "idle|1|what an idle session costs in memory|cargo test --locked --test campaigns idle:: -- --nocapture"
    "comments|3|comments before and after each statement change nothing that a client sees (the judge's cases)|env ROWSTAMP_JUDGE_COMMENTS=1 cargo test --locked --test e2e proxied_statements"
    "random|1|INSERTs drawn from a grammar do what native ones do|tests/random.sh 4000"
    "values|1|what is stored is what the server would have stored, type by type|tests/values.sh"
    "mutants|8|without each of three guards a test fails (all: an hour)|tests/mutants.sh fence-unknown-outcome-taken embedded-compare layout-fields-overlap"
    "book|5|mdBook builds the book, and warns of nothing|tests/book.sh"
    "fuzz|10|fourteen fuzz targets, five seconds each|tests/fuzz.sh 5"
    "fuzz_lints|2|clippy of the fuzz targets|cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir ${CARGO_TARGET_DIR:-target} -- -D warnings"
)

PASSED=0 FAILED=0 SKIPPED=0
LINES=()

# campaign NAME COMMAND...: adds what the command's last summary counts, or cargo's own; without one it counts as one test. One failure
# at least where it ends badly.
campaign() {
    local begun=$SECONDS status=0 passed=0 failed=0 skipped=0 line
    printf '== %s\n' "$1"
    "${@:2}" 2>&1 | tee "$log" || status=$?
    read -r passed failed skipped < <(awk '
        /^[0-9]+ passed, [0-9]+ failed/ { line = $1 " " $3 " " $5 + 0 }
        /^test result: / { cargo = 1; passed += $4; failed += $6 }
        /^SKIPPED: / { skipped++ }
        END { print line != "" ? line : cargo ? passed " " failed " " skipped + 0 : "none 0 " skipped + 0 }' "$log")
    if [[ $passed == none ]]; then passed=$((status == 0)); fi
    if [[ $status != 0 && $failed == 0 ]]; then failed=1; fi
    PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed)) SKIPPED=$((SKIPPED + skipped))
    line="== $1: $passed passed, $failed failed, $skipped skipped, $((SECONDS - begun)) s"
    LINES+=("$line")
    printf '%s\n' "$line"
}

row() { # NAME: its row; false where there is none
    local row
    for row in "${CAMPAIGNS[@]}"; do
        [[ ${row%%|*} != "$1" ]] || { printf '%s\n' "$row"; return; }
    done
    return 1
}

main() {
    local names=() name minutes shows command row
    case ${1:-} in
        --help | -h) usage; exit 0 ;;
        --list)
            for row in "${CAMPAIGNS[@]}"; do
                IFS='|' read -r name minutes shows command <<<"$row"
                printf '%-11s %2d min  %s: %s\n' "$name" "$minutes" "$shows" "$command"
            done
            exit 0
            ;;
        -*) usage >&2; exit 2 ;;
        '') for row in "${CAMPAIGNS[@]}"; do names+=("${row%%|*}"); done ;;
        *) names=("$@") ;;
    esac
    for name in "${names[@]}"; do
        row "$name" >/dev/null || { echo "there is no campaign $name: tests/campaigns.sh --list" >&2; exit 2; }
    done
    need_room
    tests/install.sh || exit
    if [[ -z ${ROWSTAMP_BIN:-} ]]; then
        cargo build --release --locked --bin rowstamp || exit
        # One binary for all; without it each would build by itself.
        export ROWSTAMP_BIN=${CARGO_TARGET_DIR:-$PWD/target}/release/rowstamp
    fi
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    for name in "${names[@]}"; do
        IFS='|' read -r name minutes shows command < <(row "$name")
        # shellcheck disable=SC2086 # a command line
        campaign "$name" $command
    done
    printf '%s\n' "${LINES[@]}"
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
    [[ $FAILED == 0 && $PASSED -gt 0 ]]
    exit
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main "$@"; exit
