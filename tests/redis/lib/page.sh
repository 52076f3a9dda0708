# shellcheck shell=bash
# The examples of docs/redis.md; sourced by redis.sh.

PAGE=$(dirname "$TESTS")/docs/redis.md

# fence KIND: the first block of that kind.
fence() { awk -v kind="\`\`\`$1" '$0 == "```" { inside = 0 } inside; $0 == kind && !seen { inside = seen = 1 }' "$PAGE"; }

# session: the first block that redis-cli is called in.
session() { awk '/^```/ { if (found) exit; inside = !inside; text = ""; next } inside { text = text $0 "\n" } /^\$ redis-cli / { found = inside }
    END { printf "%s", text }' "$PAGE"; }

# run_example KIND: against a new proxy, whose first id is 1.
run_example() {
    local folder=$HERE/target/page found status=0
    mkdir -p "$folder"
    up 1 preferred || { failed "page $1: the proxy did not start"; return; }
    if [ "$1" = console ]; then
        run_console
    else
        fence "$1" | sed "s/\b6379\b/${PORTS[1]}/g" >"$folder/Ids.$1"
        found=$(example "$1" "$folder/Ids.$1" 2>"$RUN_FOLDER/errors") || status=$?
        if [ "$status" = 0 ] && says_the_ids "$found"; then
            passed "page $1"
        else
            failed "page $1 (exit $status) printed: $found"
            ends "$RUN_FOLDER/errors"
        fi
    fi
    down
}

example() { # KIND FILE
    cd "$HERE" || return
    case $1 in
        python) nice timeout 60 target/venv/bin/python "$2" ;;
        js) NODE_PATH=target/node/node_modules nice timeout 60 node "$2" ;;
        java) nice timeout 60 java -cp 'target/java/lib/*' "$2" ;;
        go) cd go && nice timeout 300 go run "$2" ;;
    esac
}

# says_the_ids TEXT: first the id 1 alone, and at last 11, the last of ten more.
says_the_ids() {
    local -a lines numbers
    mapfile -t lines <<<"$1"
    mapfile -t numbers < <(grep -oE '[0-9]+' <<<"$1")
    [[ ${#lines[@]} == 2 && ${lines[0]} =~ ^1( |$) && ${numbers[-1]} == 11 ]]
}

# Each line after "$ " is run, and must answer what stands below it.
run_console() {
    local line words expect found
    expect=$(session)
    found=$(grep '^\$ redis-cli ' <<<"$expect" | while IFS= read -r line; do
        printf '%s\n' "$line"
        read -ra words <<<"${line#\$ redis-cli }"
        # As it answers where a person looks on.
        redis-cli --no-raw -p "${PORTS[1]}" "${words[@]}" 2>&1 </dev/null
    done)
    if [ -n "$expect" ] && [ "$found" = "$expect" ]; then
        passed "page console"
    else
        failed "page console answered: $found"
    fi
}
