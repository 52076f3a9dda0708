#!/usr/bin/env bash
# POST .../ids at Rowstamp beside a plain axum handler that adds to an atomic, by wrk, in one run. Prints two markdown tables.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"
# shellcheck source=tests/drivers/lib/install.sh
. "$HERE/tests/drivers/lib/install.sh"

ROUNDS=5 SECONDS_EACH=5 CLIENTS=50
PACED_CLIENTS=50

usage() {
    cat <<USAGE
benches/http.sh [options]: medians of the rounds

  --rounds N    rounds, the two taking turns within each (default $ROUNDS)
  --seconds N   of each measurement (default $SECONDS_EACH)
  --clients N   connections of wrk in the first table (default $CLIENTS)

First table: each client asks again as soon as it is answered. "CPU" is the processor time of the server's process for one request, user mode
and kernel, in microseconds. wrk takes a core of its own, so on few cores it is often what limits the rate; the processor time tells the servers
apart all the same. Second table: how long a request takes, in milliseconds, while some 10,000 come a second: each of $PACED_CLIENTS clients waits 3 to 6 ms
after an answer. Clients of Rowstamp log in by a user and a password; its bounds are in a file, as by default. The peer is benches/plain_axum. Installs wrk where it is
missing. ROWSTAMP_BIN names a binary; without it the release build is made.
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --rounds | --seconds | --clients) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --rounds) ROUNDS=$2 ;;
        --seconds) SECONDS_EACH=$2 ;;
        --clients) CLIENTS=$2 ;;
    esac
    shift 2
done

needs wrk wrk || die "there is no wrk on this machine"
clean_up_at_end
rowstamp_binary "$HERE"
TARGET=${CARGO_TARGET_DIR:-$HERE/target}/plain_axum
(cd "$HERE/benches/plain_axum" && cargo build --release --locked --quiet --target-dir "$TARGET") || die "the peer cannot be built"
TICKS=$(getconf CLK_TCK)
declare -A PORT PID

start_axum() {
    PORT[axum]=$(free_port)
    spawn "$RUN_FOLDER/axum.log" "$TARGET/release/plain-axum" "${PORT[axum]}"
    PID[axum]=$SPAWNED_PID
    wait_for axum "$SPAWNED_PID" "$RUN_FOLDER/axum.log" accepts "${PORT[axum]}"
}

start_ours() {
    mkdir -p "$RUN_FOLDER/rowstamp/rules"
    printf 'schema = "shop"\n[generators.orders]\nkind = "sequence"\n' >"$RUN_FOLDER/rowstamp/rules/shop.toml"
    start_door "$RUN_FOLDER/rowstamp" "the HTTP API" <<<$'[api]\naddress = "127.0.0.1:0"' || exit
    PID[rowstamp]=$DOOR_PID PORT[rowstamp]=$DOOR_PORT
}

# run SERVER CLIENTS SCRIPT: what wrk says; all requests must have been answered with 200.
run() {
    local told
    told=$(wrk -t 1 -c "$2" -d "$SECONDS_EACH" -s "$RUN_FOLDER/$3" "http://127.0.0.1:${PORT[$1]}/v1/generators/shop.orders/ids") || die "wrk failed: $told"
    ! grep -qE 'Non-2xx|Socket errors' <<<"$told" || die "$1 answered with errors: $told"
    echo "$told"
}

# of SERVER FIELD FILE
of() { awk -v server="$1" -v field="$2" '$1 == server { print $field }' "$3" | median; }

turns() { # ROUND
    if [ $(($1 % 2)) = 0 ]; then echo axum rowstamp; else echo rowstamp axum; fi
}

cat >"$RUN_FOLDER/post.lua" <<LUA
wrk.method = "POST"
wrk.headers["Authorization"] = "Basic $(printf 'labels:s3cret' | base64)"
LUA
cat "$RUN_FOLDER/post.lua" - >"$RUN_FOLDER/paced.lua" <<'LUA'
function delay()
    return math.random(3, 6)
end
function done(summary, latency)
    local ms = function(percent) return latency:percentile(percent) / 1000 end
    print("paced", summary.requests / summary.duration * 1e6, ms(50), ms(99), ms(99.9))
end
LUA

start_axum
start_ours
for ((round = 0; round < ROUNDS; round++)); do
    for server in $(turns "$round"); do
        before=$(ticks "${PID[$server]}")
        told=$(run "$server" "$CLIENTS" post.lua) || exit
        after=$(ticks "${PID[$server]}")
        awk -v server="$server" -v ticks=$((after - before)) -v hertz="$TICKS" \
            '/requests in/ { n = $1 } /Requests\/sec/ { rate = $2 } END { print server, rate, ticks / hertz * 1e6 / n }' <<<"$told" >>"$RUN_FOLDER/rate"
        told=$(run "$server" "$PACED_CLIENTS" paced.lua) || exit
        awk -v server="$server" '/^paced/ { print server, $2, $3, $4, $5 }' <<<"$told" >>"$RUN_FOLDER/paced"
    done
done
echo "| server | requests/s | ratio | CPU | ratio |"
echo "|---|---|---|---|---|"
for server in axum rowstamp; do
    awk -v server="$server" -v a="$(of axum 2 "$RUN_FOLDER/rate")" -v b="$(of "$server" 2 "$RUN_FOLDER/rate")" \
        -v c="$(of axum 3 "$RUN_FOLDER/rate")" -v d="$(of "$server" 3 "$RUN_FOLDER/rate")" \
        'BEGIN { printf "| %s | %d | %.2f | %.2f us | %.2f |\n", server, b, b / a, d, d / c }'
done
echo
echo "| server | requests/s | p50 | p99 | p99.9 |"
echo "|---|---|---|---|---|"
for server in axum rowstamp; do
    figures=()
    for field in 2 3 4 5; do figures+=("$(of "$server" "$field" "$RUN_FOLDER/paced")"); done
    printf "| %s | %.0f | %.2f ms | %.2f ms | %.2f ms |\n" "$server" "${figures[@]}"
done
