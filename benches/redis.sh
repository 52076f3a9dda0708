#!/usr/bin/env bash
# INCR at Rowstamp beside INCR at redis-server, by redis-benchmark, in one run. Prints a markdown table.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

ROUNDS=5 SECONDS_EACH=5 CLIENTS=50 THREADS=1 PIPELINES=(1 16 64)

usage() {
    cat <<USAGE
benches/redis.sh [options]: a line for each length of pipeline, medians of the rounds

  --rounds N    rounds, the two taking turns within each (default $ROUNDS)
  --seconds N   of each measurement, more or less (default $SECONDS_EACH)
  --clients N   connections of redis-benchmark (default $CLIENTS)
  --threads N   threads of redis-benchmark (default $THREADS)

"CPU" is the processor time of the server's process for one INCR, user mode and kernel, in microseconds. "client" is how much of a core
redis-benchmark takes. Where that is as many cores as it has threads, it limits the rate, and only the processor time tells the servers apart.
redis-server has no persistence; Rowstamp has its bounds in a file, as by default. Needs redis-server and redis-tools (tests/install.sh).
ROWSTAMP_BIN names a binary; without it the release build is made.
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --rounds | --seconds | --clients | --threads) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --rounds) ROUNDS=$2 ;;
        --seconds) SECONDS_EACH=$2 ;;
        --clients) CLIENTS=$2 ;;
        --threads) THREADS=$2 ;;
    esac
    shift 2
done

need redis-server redis-benchmark redis-cli
clean_up_at_end
rowstamp_binary "$HERE"
TICKS=$(getconf CLK_TCK)
declare -A PORT PID LOGIN=([redis]="" [rowstamp]="--user labels -a s3cret")

start_redis() {
    PORT[redis]=$(free_port)
    mkdir "$RUN_FOLDER/redis"
    spawn "$RUN_FOLDER/redis.log" redis-server --port "${PORT[redis]}" --bind 127.0.0.1 --save "" --appendonly no --dir "$RUN_FOLDER/redis"
    PID[redis]=$SPAWNED_PID
    wait_for redis-server "$SPAWNED_PID" "$RUN_FOLDER/redis.log" accepts "${PORT[redis]}"
}

start_ours() {
    mkdir -p "$RUN_FOLDER/rowstamp/rules"
    printf 'schema = "shop"\n[generators.orders]\nkind = "sequence"\n' >"$RUN_FOLDER/rowstamp/rules/shop.toml"
    start_door "$RUN_FOLDER/rowstamp" "the Redis protocol" <<<$'[resp]\naddress = "127.0.0.1:0"' || exit
    PID[rowstamp]=$DOOR_PID PORT[rowstamp]=$DOOR_PORT
}

# measure SERVER PIPELINE REQUESTS: RATE is requests a second, COST microseconds of the server's processor for each, CLIENT cores of redis-benchmark.
measure() {
    local before after threads=() TIMEFORMAT='%R %U %S'
    [ "$THREADS" = 1 ] || threads=(--threads "$THREADS")
    before=$(ticks "${PID[$1]}")
    # shellcheck disable=SC2086 # a login is several words, or none
    { time redis-benchmark -p "${PORT[$1]}" ${LOGIN[$1]} -q -c "$CLIENTS" "${threads[@]}" -P "$2" -n "$3" INCR shop.orders \
        >"$RUN_FOLDER/told" 2>/dev/null; } 2>"$RUN_FOLDER/time"
    after=$(ticks "${PID[$1]}")
    RATE=$(tr '\r' '\n' <"$RUN_FOLDER/told" |
        awk '/requests per second/ { for (n = 1; n < NF; n++) if ($(n + 1) == "requests") rate = $n } END { print rate }')
    [ -n "$RATE" ] || die "redis-benchmark said nothing of $1"
    COST=$(awk -v ticks=$((after - before)) -v hertz="$TICKS" -v n="$3" 'BEGIN { printf "%.3f", ticks / hertz * 1e6 / n }')
    CLIENT=$(awk '{ printf "%.2f", ($2 + $3) / $1 }' "$RUN_FOLDER/time")
}

start_redis
start_ours
echo "| pipeline | redis-server, INCR/s | Rowstamp, INCR/s | ratio | redis-server, CPU | Rowstamp, CPU | ratio | redis-server, client | Rowstamp, client |"
echo "|---|---|---|---|---|---|---|---|---|"
for pipeline in "${PIPELINES[@]}"; do
    # How many take so long.
    measure redis "$pipeline" $((20000 * pipeline))
    requests=$(awk -v rate="$RATE" -v seconds="$SECONDS_EACH" 'BEGIN { printf "%d", rate * seconds }')
    raw=$RUN_FOLDER/raw.$pipeline
    for ((round = 0; round < ROUNDS; round++)); do
        order=(redis rowstamp)
        [ $((round % 2)) = 0 ] || order=(rowstamp redis)
        for server in "${order[@]}"; do
            measure "$server" "$pipeline" "$requests"
            echo "$server $RATE $COST $CLIENT" >>"$raw"
        done
    done
    figures=()
    for field in 2 3 4; do
        for server in redis rowstamp; do
            figures+=("$(awk -v server="$server" -v field="$field" '$1 == server { print $field }' "$raw" | median)")
        done
    done
    awk -v p="$pipeline" -v a="${figures[0]}" -v b="${figures[1]}" -v c="${figures[2]}" -v d="${figures[3]}" \
        -v e="${figures[4]}" -v f="${figures[5]}" \
        'BEGIN { printf "| %d | %d | %d | %.2f | %.2f us | %.2f us | %.2f | %.2f | %.2f |\n", p, a, b, b / a, c, d, d / c, e, f }'
done
