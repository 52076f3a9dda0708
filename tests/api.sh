#!/usr/bin/env bash
# The HTTP API as others know it: the examples of docs/http.md and docs/id-services.md, the OpenAPI document by its validator, and
# requests that schemathesis makes up from that document.
set -uo pipefail

TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HERE=$TESTS/api
DOCS=$(dirname "$TESTS")/docs
# shellcheck source=tests/servers.sh
. "$TESTS/servers.sh"
# shellcheck source=tests/drivers/lib/install.sh
. "$TESTS/drivers/lib/install.sh"

ALL=(console services python java go js document requests)
ONLY='' EXAMPLES=200 SEED=$RANDOM

usage() {
    cat <<USAGE
tests/api.sh [options]: a line for each check, then "N passed, N failed, N skipped"; ends with 1 if any failed, 2 for usage

  --only NAMES   of: ${ALL[*]}   (comma between)
  --examples N   requests that schemathesis makes up for each path, at most (default $EXAMPLES)
  --seed N       repeats the requests of an earlier run, which it printed

No MySQL server is needed. ROWSTAMP_BIN: a built rowstamp; else \`cargo build --release\` makes one. The first run installs schemathesis and
openapi-spec-validator into api/target.
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --only | --examples | --seed) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --only) ONLY=$2 ;;
        --examples) EXAMPLES=$2 ;;
        --seed) SEED=$2 ;;
    esac
    shift 2
done

PASSED=0 FAILED=0 SKIPPED=0
passed() { PASSED=$((PASSED + 1)); echo "PASS $*"; }
failed() { FAILED=$((FAILED + 1)); echo "FAIL $*"; }
skipped() { SKIPPED=$((SKIPPED + 1)); echo "SKIPPED: api: $*"; }

PID='' PORT=''

# up: a proxy with a new store, whose first id is 1.
up() {
    local folder=$RUN_FOLDER/proxy
    rm -rf "$folder"
    mkdir -p "$folder/rules"
    cat >"$folder/rules/shop.toml" <<TOML
schema = "shop"
[generators.orders]
kind = "sequence"
[generators.events]
kind = "timestamp"
layout = "snowflake"
node = 1
TOML
    cat >"$folder/rules/service.toml" <<TOML
schema = "service"
[generators.id]
kind = "timestamp"
layout = "snowflake"
TOML
    start_door "$folder" "the HTTP API" <<'TOML' || return
[api]
address = "127.0.0.1:0"
compat = ["leaf", "udf"]
TOML
    PID=$DOOR_PID PORT=$DOOR_PORT
}

# The first block of docs/http.md of that kind.
fence() { awk -v kind="\`\`\`$1" '$0 == "```" { inside = 0 } inside; $0 == kind && !seen { inside = seen = 1 }' "$DOCS/http.md"; }

# session PAGE: the first block that curl is called in.
session() {
    awk '/^```/ { if (found) exit; inside = !inside; text = ""; next } inside { text = text $0 "\n" } /^\$ curl / { found = inside }
        END { printf "%s", text }' "$DOCS/$1"
}

# console PAGE: each line after "$ " is run, and must answer what stands below it.
console() {
    local line expect found
    expect=$(session "$1" | sed "s/\b3310\b/$PORT/g")
    found=$(grep '^\$ ' <<<"$expect" | while IFS= read -r line; do
        printf '%s\n' "$line"
        bash -c "${line#\$ }" </dev/null 2>&1
    done)
    [ -n "$expect" ] && [ "$found" = "$expect" ] || { echo "answered: $found"; return 1; }
}

run_console() { # PAGE
    local told
    up || { failed "$1: the proxy did not start"; return; }
    if told=$(console "$1"); then passed "curl, as in docs/$1"; else failed "curl, as in docs/$1, $told"; fi
    stop "$PID"
}

example() { # KIND
    local file=$RUN_FOLDER/Ids.$1
    fence "$1" | sed "s/\b3310\b/$PORT/g" >"$file"
    case $1 in
        python) nice timeout 60 python3 "$file" ;;
        js) nice timeout 60 node "$file" ;;
        java) nice timeout 60 java "$file" ;;
        go) nice timeout 300 go run "$file" ;;
    esac
}

# says_the_ids TEXT: first the id 1, and after that line ten ids from 2 on: all of them, or the first and how many.
says_the_ids() {
    local -a rest
    [ "$(grep -oE '[0-9]+' <<<"$1" | head -n 1)" = 1 ] || return
    mapfile -t rest < <(tail -n +2 <<<"$1" | grep -oE '[0-9]+')
    [ "${rest[0]-}" = 2 ] && { [ "${rest[1]-}" = 10 ] || [ "${rest[-1]}" = 11 ]; }
}

run_example() { # KIND PROGRAM PACKAGE
    local found
    needs "$2" "$3" || { skipped "there is no $2 on this machine"; return; }
    up || { failed "$1: the proxy did not start"; return; }
    if found=$(example "$1" 2>&1) && says_the_ids "$found"; then passed "the example in $1"; else failed "the example in $1 printed: $found"; fi
    stop "$PID"
}

venv() {
    apt_packages python3-venv
    python3 -m venv --clear "$HERE/target/venv" &&
        "$HERE/target/venv/bin/pip" install -q --disable-pip-version-check -r "$HERE/requirements.txt"
}

# What is tried with the programs of requirements.txt: document, requests.
try() {
    local login found
    login=$(printf 'labels:s3cret' | base64)
    curl -s "http://127.0.0.1:$PORT/v1/openapi.json" >"$RUN_FOLDER/openapi.json"
    case $1 in
        document) "$HERE/target/venv/bin/openapi-spec-validator" "$RUN_FOLDER/openapi.json" ;;
        requests)
            # ignored_auth: it takes the 429 that a second wrong password gets for a login that was let in.
            # It keeps what it finds where it runs.
            found=$(cd "$RUN_FOLDER" && "$HERE/target/venv/bin/schemathesis" run "$RUN_FOLDER/openapi.json" --url "http://127.0.0.1:$PORT" --seed "$SEED" \
                --header "Authorization: Basic $login" --checks all --exclude-checks ignored_auth --max-examples "$EXAMPLES" --no-color 2>&1) ||
                { echo "$found"; return 1; }
            grep -E '[0-9] generated' <<<"$found" | tr -s ' '
            ! grep -qiE 'panicked|ERROR' "$RUN_FOLDER/proxy/log"
            ;;
    esac
}

run_try() {
    local told
    mkdir -p "$HERE/target"
    needs python3 python3 || { skipped "there is no python3 on this machine"; return; }
    (cd "$HERE" && once target/venv "$HERE/requirements.txt" -- venv) >"$RUN_FOLDER/install.log" 2>&1 || {
        tail -n 20 "$RUN_FOLDER/install.log"
        die "schemathesis and openapi-spec-validator cannot be installed"
    }
    up || { failed "$1: the proxy did not start"; return; }
    if told=$(try "$1" 2>&1); then passed "$1${told:+: $told}"; else failed "$1 (seed $SEED): $told"; fi
    stop "$PID"
}

clean_up_at_end
rowstamp_binary "$(dirname "$TESTS")"
for name in "${ALL[@]}"; do
    [[ -z $ONLY || ,$ONLY, == *",$name,"* ]] || continue
    case $name in
        console) run_console http.md ;;
        services) run_console id-services.md ;;
        python) run_example python python3 python3 ;;
        java) run_example java java default-jdk-headless ;;
        go) run_example go go golang-go ;;
        js) run_example js node nodejs ;;
        *) run_try "$name" ;;
    esac
done
echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
