#!/usr/bin/env bash
# A proxy that is taken over from time and again (serve --takeover) under sysbench, on MariaDB and on MySQL 9: no error, and every
# row that sysbench counted is there with an id of its own.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

TAKEOVERS=200 THREADS=8 SERVERS=(mariadb mysql)

usage() {
    cat <<USAGE
tests/takeover.sh [options]: one line a server, then "N passed, N failed"; ends with 1 if any failed

  --takeovers N    on each server (default $TAKEOVERS)
  --threads N      of sysbench, which connect anew after every 20 events (default $THREADS)
  --server LIST    of mariadb,mysql (default both)
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --takeovers | --threads | --server) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --takeovers) TAKEOVERS=$2 ;;
        --threads) THREADS=$2 ;;
        --server) IFS=, read -r -a SERVERS <<<"$2" ;;
    esac
    shift 2
done

PASSED=0 FAILED=0

bench() { # SECONDS COMMAND
    timeout -k 5 $(($1 + 60)) sysbench "$HERE/tests/sysbench/reconnect.lua" --db-driver=mysql --mysql-host=127.0.0.1 \
        --mysql-port="$PROXY_PORT" --mysql-user="$APP_USER" --mysql-password="$APP_PASSWORD" --mysql-db=takeover \
        --threads="$THREADS" --time="$1" "$2"
}

# One takeover a second while sysbench runs; PIDS has the processes that gave their place.
take_over_and_over() { # FOLDER SYSBENCH_PID
    local nth begun=$SECONDS
    PIDS=()
    for ((nth = 1; nth <= TAKEOVERS; nth++)); do
        while ((SECONDS - begun < nth)); do sleep 0.05; done
        kill -0 "$2" 2>/dev/null || return
        PIDS+=("$PROXY_PID")
        start_rowstamp "$1" --takeover
    done
}

run_server() { # SERVER
    local folder=$RUN_FOLDER/$1 out=$RUN_FOLDER/out problem='' bench_pid pid events rows ids alive=0
    "start_$1" --innodb-buffer-pool-size=1G --innodb-flush-log-at-trx-commit=2
    mkdir -p "$folder/rules"
    printf '%s\n' 'schema = "takeover"' '[generators.all]' 'kind = "sequence"' '[tables.sbtest1]' 'column = "id"' \
        'generator = "all"' >"$folder/rules/takeover.toml"
    db -e "CREATE DATABASE takeover"
    PROXY_PORT=
    start_rowstamp "$folder"
    bench 0 prepare >"$out" 2>&1 || { cat "$out" >&2; die "prepare failed"; }
    bench $((TAKEOVERS + 5)) run >"$out" 2>&1 &
    bench_pid=$!
    SPAWNED+=("$bench_pid")
    take_over_and_over "$folder" "$bench_pid"
    wait "$bench_pid" || problem="sysbench: $( (grep -m 1 FATAL "$out" || tail -n 1 "$out") | cut -c -200)"
    events=$(awk '/total number of events:/ { print $5 }' "$out")
    sleep 1
    for pid in "${PIDS[@]}"; do
        if kill -0 "$pid" 2>/dev/null; then alive=$((alive + 1)); fi
    done
    read -r rows ids <<<"$(db takeover -e 'SELECT COUNT(*), COUNT(DISTINCT id) FROM sbtest1')"
    if [ -n "$problem" ]; then :
    elif [ "${#PIDS[@]}" != "$TAKEOVERS" ]; then problem="${#PIDS[@]} takeovers of $TAKEOVERS"
    elif [ "$rows" != "$events" ] || [ "$rows" = 0 ]; then problem="$rows rows where sysbench counted $events"
    elif [ "$ids" != "$rows" ]; then problem="$((rows - ids)) ids twice"
    elif [ "$alive" != 0 ]; then problem="$alive processes live on without a session"
    elif grep -q ' ERROR ' "$folder/rowstamp.log"; then problem=$(grep -m 1 ' ERROR ' "$folder/rowstamp.log")
    fi
    stop "$PROXY_PID"
    stop "$DB_PID"
    if [ -z "$problem" ]; then
        PASSED=$((PASSED + 1))
        echo "ok      $1: ${#PIDS[@]} takeovers, $events events, no error, $rows rows with ids of their own"
    else
        FAILED=$((FAILED + 1))
        echo "FAILED  $1: $problem"
    fi
}

"$HERE/tests/install.sh" sysbench
need sysbench
clean_up_at_end
rowstamp_binary "$HERE"
for server in "${SERVERS[@]}"; do run_server "$server"; done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]
