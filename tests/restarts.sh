#!/usr/bin/env bash
# A proxy that is restarted time and again under sysbench, on MariaDB and on MySQL 9. By takeover (serve --takeover) sysbench
# meets no error. By SIGTERM, and a start after the process has ended, no transaction that has begun is broken. Either way every
# row that sysbench counted is there, with an id of its own.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

RESTARTS=200 THREADS=8 SERVERS=(mariadb mysql) WAYS=(takeover sigterm)

usage() {
    cat <<USAGE
tests/restarts.sh [options]: one line a server and way, then "N passed, N failed"; ends with 1 if any failed

  --restarts N     of each, one a second (default $RESTARTS)
  --threads N      of sysbench (default $THREADS); by takeover they connect again after every 20 events
  --server LIST    of mariadb,mysql (default both)
  --way LIST       of takeover,sigterm (default both)
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --restarts | --threads | --server | --way) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --restarts) RESTARTS=$2 ;;
        --threads) THREADS=$2 ;;
        --server) IFS=, read -r -a SERVERS <<<"$2" ;;
        --way) IFS=, read -r -a WAYS <<<"$2" ;;
    esac
    shift 2
done

PASSED=0 FAILED=0

bench() { # SCRIPT SECONDS COMMAND
    timeout -k 5 $(($2 + 60)) sysbench "$HERE/tests/sysbench/$1.lua" --db-driver=mysql --mysql-host=127.0.0.1 \
        --mysql-port="$PROXY_PORT" --mysql-user="$APP_USER" --mysql-password="$APP_PASSWORD" --mysql-db=restarts \
        --threads="$THREADS" --time="$2" "$3"
}

# One restart a second while sysbench runs; PIDS has the processes that gave their place.
restart_over_and_over() { # WAY FOLDER SYSBENCH_PID
    local nth begun=$SECONDS
    PIDS=()
    for ((nth = 1; nth <= RESTARTS; nth++)); do
        while ((SECONDS - begun < nth)); do sleep 0.05; done
        sleep "0.$((RANDOM % 4))" # not always at the same point of a second
        kill -0 "$3" 2>/dev/null || return
        PIDS+=("$PROXY_PID")
        "by_$1" "$2" || return
    done
}

by_takeover() { start_rowstamp "$1" --takeover; }

by_sigterm() { # FOLDER
    kill -TERM "$PROXY_PID"
    wait "$PROXY_PID" || { say "the proxy ended with $? after SIGTERM"; return 1; }
    cat "$1/rowstamp.log" >>"$1/before.log"
    start_rowstamp "$1"
}

script_of() { # WAY
    case $1 in takeover) echo reconnect ;; sigterm) echo transactions ;; esac
}

# What is wrong with the run, if anything, and what it was.
judge() { # WAY FOLDER OUT
    local pid alive=0 events rows ids due
    events=$(awk '/total number of events:/ { print $5 }' "$3")
    due=$events
    [ "$1" = takeover ] || due=$((${events:-0} * 3))
    for pid in "${PIDS[@]}"; do
        if kill -0 "$pid" 2>/dev/null; then alive=$((alive + 1)); fi
    done
    read -r rows ids <<<"$(db restarts -e 'SELECT COUNT(*), COUNT(DISTINCT id) FROM sbtest1')"
    FIGURES="${#PIDS[@]} restarts, ${events:-no} events, $rows rows, $ids ids"
    if grep -q BROKEN "$3"; then PROBLEM="$(grep -c BROKEN "$3") transactions broken: $(grep -m 1 BROKEN "$3")"
    elif [ "${#PIDS[@]}" != "$RESTARTS" ]; then PROBLEM="$RESTARTS restarts are due"
    elif [ "$rows" != "$due" ] || [ "$rows" = 0 ]; then PROBLEM="$due rows are due"
    elif [ "$ids" != "$rows" ]; then PROBLEM="$((rows - ids)) ids twice"
    elif [ "$alive" != 0 ]; then PROBLEM="$alive processes live on without a session"
    elif grep -q ' ERROR ' "$2"/*.log; then PROBLEM=$(grep -h -m 1 ' ERROR ' "$2"/*.log)
    elif [ "$1" = sigterm ] && [ "$(db restarts -e 'SELECT SUM(n) FROM sums')" != "$rows" ]; then
        PROBLEM="the sums of the transactions are $(db restarts -e 'SELECT SUM(n) FROM sums')"
    fi
}

run_way() { # SERVER WAY
    local folder=$RUN_FOLDER/$1-$2 out=$RUN_FOLDER/out bench_pid script
    script=$(script_of "$2")
    PROBLEM='' FIGURES=''
    mkdir -p "$folder/rules"
    printf '%s\n' 'schema = "restarts"' '[generators.all]' 'kind = "sequence"' '[tables.sbtest1]' 'column = "id"' \
        'generator = "all"' >"$folder/rules/restarts.toml"
    db -e "CREATE DATABASE restarts"
    PROXY_PORT=
    start_rowstamp "$folder"
    bench "$script" 0 prepare >"$out" 2>&1 || { cat "$out" >&2; die "prepare failed"; }
    # By SIGTERM a restart may take longer than a second on a busy machine.
    bench "$script" $((RESTARTS * 3 / 2 + 5)) run >"$out" 2>&1 &
    bench_pid=$!
    SPAWNED+=("$bench_pid")
    restart_over_and_over "$2" "$folder" "$bench_pid"
    wait "$bench_pid" || PROBLEM="sysbench: $( (grep -m 1 FATAL "$out" || tail -n 1 "$out") | cut -c -200)"
    sleep 1
    [ -n "$PROBLEM" ] || judge "$2" "$folder" "$out"
    stop "$PROXY_PID"
    db -e "DROP DATABASE restarts"
    if [ -z "$PROBLEM" ]; then
        PASSED=$((PASSED + 1))
        echo "ok      $1 by $2: $FIGURES"
    else
        FAILED=$((FAILED + 1))
        echo "FAILED  $1 by $2: $PROBLEM ($FIGURES)"
    fi
}

"$HERE/tests/install.sh" sysbench
need sysbench
clean_up_at_end
rowstamp_binary "$HERE"
for server in "${SERVERS[@]}"; do
    "start_$server" --innodb-buffer-pool-size=1G --innodb-flush-log-at-trx-commit=2
    server_pid=$DB_PID
    for way in "${WAYS[@]}"; do run_way "$server" "$way"; done
    stop "$server_pid"
done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]
