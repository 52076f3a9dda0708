#!/usr/bin/env bash
# Ordinary clients of Redis draw ids at the Redis-protocol door: one small program a client, which redis/README.md tells about.
#
#   tests/redis.sh   all clients, each by RESP2, RESP3, TLS, and as a cluster client of two proxies, one of which is then killed; and the
#                    examples of docs/redis.md, as they stand there
#   --only NAMES     these clients (redis-cli, redis-py, ...), those of a language (cli, python, node, go, java, rust), or the examples
#                    (page), with commas between them
#   --modes MODES    in these modes alone: resp2, resp3, tls, cluster2, cluster3, cluster-tls, with commas between them
#   --verbose        print all that the programs print
#
# No MySQL server is needed. ROWSTAMP_BIN: a built rowstamp; else `cargo build --release` makes one.
# The last line is "N passed, N failed, N skipped"; 0 if none failed, 1 if one did, 2 for usage. Two minutes, and as long again for
# the first run, which installs the clients into redis/target.
set -uo pipefail

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HERE=$TESTS/redis
# shellcheck source=tests/servers.sh
. "$TESTS/servers.sh"
# shellcheck source=tests/drivers/lib/install.sh
. "$TESTS/drivers/lib/install.sh"
# shellcheck source=tests/redis/lib/install.sh
. "$HERE/lib/install.sh"
# shellcheck source=tests/redis/lib/proxies.sh
. "$HERE/lib/proxies.sh"
# shellcheck source=tests/redis/lib/page.sh
. "$HERE/lib/page.sh"

# NAME | LANGUAGE | COMMAND, in redis/. The language that takes longest to build is the last.
CLIENTS=(
    "redis-cli|cli|cli/redis_cli.sh"
    "redis-py|python|target/venv/bin/python python/redis_py.py"
    "ioredis|node|node node/ioredis.js"
    "node-redis|node|node node/node_redis.js"
    "go-redis|go|target/go/goredis"
    "jedis|java|java -cp target/java/classes:target/java/lib/* rowstamp.JedisProgram"
    "lettuce|java|java -cp target/java/classes:target/java/lib/* rowstamp.LettuceProgram"
    "redis-rs|rust|target/rust/debug/rowstamp-redis"
)
MODES=(resp2 resp3 tls cluster2 cluster3 cluster-tls)
# The examples of the page, by what stands behind their ```, and the language of each.
EXAMPLES=("console|cli" "python|python" "js|node" "go|go" "java|java")

ONLY='' ONLY_MODES='' VERBOSE=''
usage() { sed -n '2,/^set/p' "$0" | grep '^#' >&2; }
while [ $# -gt 0 ]; do
    case $1 in
        --only | --modes)
            [ $# -ge 2 ] || { usage; exit 2; }
            if [ "$1" = --only ]; then ONLY=$2; else ONLY_MODES=$2; fi
            shift
            ;;
        --verbose) VERBOSE=1 ;;
        *) usage; exit 2 ;;
    esac
    shift
done

listed() { [[ -z $1 || ,$1, == *",$2,"* ]]; } # LIST NAME

chosen() { # NAME LANGUAGE
    listed "$ONLY" "$1" || listed "$ONLY" "$2"
}

LANGUAGES=()
for row in "${CLIENTS[@]}"; do
    IFS='|' read -r name language _ <<<"$row"
    if chosen "$name" "$language" || listed "$ONLY" page; then
        [[ " ${LANGUAGES[*]} " == *" $language "* ]] || LANGUAGES+=("$language")
    fi
done
[ ${#LANGUAGES[@]} -gt 0 ] || { echo "no client is called $ONLY" >&2; usage; exit 2; }
for mode in ${ONLY_MODES//,/ }; do
    [[ " ${MODES[*]} " == *" $mode "* ]] || { echo "no mode is called $mode" >&2; usage; exit 2; }
done

PASSED=0 FAILED=0 SKIPPED=0

passed() { PASSED=$((PASSED + 1)); echo "PASS $*"; }
failed() { FAILED=$((FAILED + 1)); echo "FAIL $*"; }
skipped() { SKIPPED=$((SKIPPED + 1)); echo "SKIPPED: $*"; }

# ends FILE: how a long text begins and how it ends, for some name an error first and some at last.
ends() { awk 'NR <= 8 { print } NR > 8 { last[NR % 8] = $0 } END { for (n = NR > 16 ? NR - 7 : 9; n <= NR; n++) print last[n % 8] }' "$1" | cut -c1-500; }

# obey SAID: what the program prints, written to SAID; where it asks for it, a proxy is killed, and the program gets a line that says so.
obey() {
    local line nth
    while IFS= read -r line; do
        case $line in
            "kill 1" | "kill 2")
                nth=${line#kill }
                kill -KILL "${PIDS[nth]}"
                while accepts "${PORTS[nth]}"; do sleep 0.02; done
                echo killed >&3
                ;;
        esac
        printf '%s\n' "$line"
    done >"$1"
}

# run_program COMMAND MODE: what it prints is in $RUN_FOLDER/said and errors.
run_program() {
    local status
    mkfifo "$RUN_FOLDER/answers"
    exec 3<>"$RUN_FOLDER/answers"
    (
        cd "$HERE" || exit
        export ROWSTAMP_PORTS="${PORTS[*]}" ROWSTAMP_CA=$CA PYTHONDONTWRITEBYTECODE=1 NODE_PATH=target/node/node_modules RUST_BACKTRACE=0
        # shellcheck disable=SC2086 # a command line
        exec nice timeout 120 $1 "$2" <"$RUN_FOLDER/answers" 2>"$RUN_FOLDER/errors" 3>&-
    ) | obey "$RUN_FOLDER/said"
    status=$?
    exec 3>&-
    rm -f "$RUN_FOLDER/answers"
    return "$status"
}

# run_mode NAME COMMAND MODE
run_mode() {
    local status=0 said=$RUN_FOLDER/said line notes
    case $3 in
        tls) up 1 required ;;
        cluster*) up 1 preferred && up 2 preferred ;;
        *) up 1 preferred ;;
    esac || { failed "$1 $3: the proxy did not start"; return; }
    run_program "$2" "$3" || status=$?
    [ -z "$VERBOSE" ] || sed 's/^/    /' "$said" "$RUN_FOLDER/errors"
    line=$(grep '^ok .*: [1-9][0-9]* checks$' "$said")
    notes=$(sed -n 's/^note /; /p' "$said" | tr -d '\n')
    # A program that ended early but well has checked nothing.
    if [ "$status" = 0 ] && [ -n "$line" ]; then
        passed "$1 $3: ${line#ok }$notes"
    else
        failed "$1 $3 (exit $status)$notes"
        grep '^WRONG ' "$said" | cut -c1-500
        ends "$RUN_FOLDER/errors"
    fi
    down
}

# run_language LANGUAGE: installs it, and runs its clients and its examples.
run_language() {
    local row name language command mode status=0 log=$RUN_FOLDER/install.log
    (install_"$1") >"$log" 2>&1 || status=$?
    case $status in
        0) ;;
        "$ABSENT") echo "$1 is not on this machine and cannot be installed:" && tail -n 5 "$log" ;;
        *) echo "the $1 programs cannot be built:" && tail -n 30 "$log" ;;
    esac
    for row in "${CLIENTS[@]}"; do
        IFS='|' read -r name language command <<<"$row"
        { [ "$language" = "$1" ] && chosen "$name" "$language"; } || continue
        for mode in "${MODES[@]}"; do
            listed "$ONLY_MODES" "$mode" || continue
            case $status in
                0) run_mode "$name" "$command" "$mode" ;;
                "$ABSENT") skipped "$name $mode: $1 cannot be had on this machine" ;;
                *) failed "$name $mode: not built" ;;
            esac
        done
    done
    for row in "${EXAMPLES[@]}"; do
        IFS='|' read -r name language <<<"$row"
        { [ "$language" = "$1" ] && chosen page "$language"; } || continue
        case $status in
            0) run_example "$name" ;;
            "$ABSENT") skipped "page $name: $1 cannot be had on this machine" ;;
            *) failed "page $name: not built" ;;
        esac
    done
}

main() {
    clean_up_at_end
    rowstamp_binary "$(dirname "$TESTS")"
    for language in "${LANGUAGES[@]}"; do run_language "$language"; done
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
    [ "$FAILED" = 0 ]
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main; exit
