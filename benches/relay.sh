#!/usr/bin/env bash
# Rowstamp beside its peers, in one run on one private MariaDB: direct, HAProxy in tcp mode, MySQL Router, Rowstamp.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

RELAYS=(direct haproxy router rowstamp)
WORKLOADS=(point-select point-select-8 point-select-64 read-write insert-text insert-prepared insert-1000 result-100mb connect)
ROUNDS=3 SECONDS_EACH=5 THREADS=16 RELAY_THREADS=2
ROWS=100000  # of the table that is read

usage() {
    cat <<USAGE
benches/relay.sh [options]: prints a markdown table, medians of the rounds; progress goes to stderr

  --rounds N        rounds, the relays taking turns within each, every other round the other way round (default $ROUNDS)
  --seconds N       of each measurement (default $SECONDS_EACH)
  --threads N       of sysbench (default $THREADS; the result set is read by one, point-select-8 and -64 have 8 and 64)
  --only LIST       of: ${RELAYS[*]}   (comma between; ratios need haproxy)
  --workloads LIST  of: ${WORKLOADS[*]}
  --pairs           prints every round's ratio of Rowstamp to HAProxy beneath the table
  --raw FILE        keeps every measurement: workload, relay, round, queries/s, p99 ms, CPU us/query, steal %
  --help

Each relay has $RELAY_THREADS threads and plain connections; their configurations are in benches/relay/. Installs sysbench
and haproxy where they are missing; MariaDB, and MySQL Router in the Debian sid root (ROWSTAMP_SID_ROOT, default
/var/tmp/rowstamp-sid), come by tests/install.sh. ROWSTAMP_BIN names a binary; without it the release build is made.
USAGE
}

parse() {
    local raw=
    PAIRS=no
    while [ $# -gt 0 ]; do
        case $1 in
            --help | -h) usage; exit 0 ;;
            --pairs) PAIRS=yes; shift; continue ;;
            --rounds | --seconds | --threads | --only | --workloads | --raw)
                [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
            *) say "unknown option $1"; usage >&2; exit 2 ;;
        esac
        case $1 in
            --rounds) ROUNDS=$2 ;;
            --seconds) SECONDS_EACH=$2 ;;
            --threads) THREADS=$2 ;;
            --only) chosen "$2" "${RELAYS[@]}"; RELAYS=("${CHOSEN[@]}") ;;
            --workloads) chosen "$2" "${WORKLOADS[@]}"; WORKLOADS=("${CHOSEN[@]}") ;;
            --raw) raw=$2 ;;
        esac
        shift 2
    done
    in_memory_if_it_fits
    clean_up_at_end
    RAW=${raw:-$RUN_FOLDER/raw.tsv}
    : >"$RAW" || die "cannot write $RAW"
}

# A disk shared with others moved inserts of 1,000 rows between 35 and 240 a second; in memory they stay within a tenth.
in_memory_if_it_fits() {
    local free_kib
    free_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)
    if [ -z "${TMPDIR:-}" ] && [ "${free_kib:-0}" -gt $((6 * 1024 * 1024)) ]; then TMPDIR=/dev/shm; fi
}

# chosen LIST NAME...: CHOSEN are the names of the comma-separated list, each one known.
chosen() {
    local word known=" ${*:2} "
    IFS=, read -r -a CHOSEN <<<"$1"
    for word in "${CHOSEN[@]}"; do
        [[ $known == *" $word "* ]] || { say "\`$word\` is none of:$known"; exit 2; }
    done
}

# The tables: items is the ruled one, items_auto its AUTO_INCREMENT twin for those who issue no ids.
load() {
    say "loading tables"
    db <<SQL
CREATE DATABASE relay;
USE relay;
CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, c VARCHAR(100) NOT NULL);
CREATE TABLE items_auto (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c VARCHAR(100) NOT NULL);
CREATE TABLE big (id INT NOT NULL PRIMARY KEY, c VARCHAR(1000) NOT NULL);
INSERT INTO big SELECT seq, REPEAT(CHAR(97 + seq % 26), 1000) FROM seq_1_to_$ROWS;
SQL
    bench "$DB_PORT" oltp_read_write --table-size="$ROWS" prepare >/dev/null || die "sysbench prepare failed"
}

# bench PORT SCRIPT ARGUMENT...
bench() {
    sysbench "$2" --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port="$1" --mysql-user="$APP_USER" \
        --mysql-password="$APP_PASSWORD" --mysql-db=relay "${@:3}"
}

# What a workload runs, TABLE standing for items or items_auto; printed beneath the table too.
command_of() {
    local insert="benches/relay/insert.lua --table=TABLE"
    case $1 in
        point-select) echo "oltp_point_select --table-size=$ROWS --threads=$THREADS" ;;
        point-select-*) echo "oltp_point_select --table-size=$ROWS --threads=${1##*-}" ;;
        read-write) echo "oltp_read_write --table-size=$ROWS --threads=$THREADS" ;;
        insert-text) echo "$insert --db-ps-mode=disable --threads=$THREADS" ;;
        insert-prepared) echo "$insert --db-ps-mode=auto --threads=$THREADS" ;;
        insert-1000) echo "$insert --rows=1000 --threads=$THREADS" ;;
        result-100mb) echo "benches/relay/result.lua --threads=1" ;;
        connect) echo "benches/relay/connect.lua --threads=$THREADS" ;;
    esac
}

fill_in() { # TEMPLATE PORT FOLDER
    sed "s|@LISTEN@|$2|; s|@BACKEND@|$DB_PORT|; s|@THREADS@|$RELAY_THREADS|; s|@FOLDER@|${3:-}|; s|@SID_ROOT@|$SID_ROOT|" "$HERE/benches/relay/$1"
}

declare -A PORT PID

start_relay() {
    PORT[$1]=$(free_port)
    case $1 in
        direct) PORT[direct]=$DB_PORT ;;
        haproxy) start_haproxy ;;
        router) start_router ;;
        rowstamp) start_ours ;;
    esac
}

start_haproxy() {
    fill_in haproxy.cfg "${PORT[haproxy]}" >"$RUN_FOLDER/haproxy.cfg"
    spawn "$RUN_FOLDER/haproxy.log" haproxy -db -f "$RUN_FOLDER/haproxy.cfg"
    PID[haproxy]=$SPAWNED_PID
    wait_for HAProxy "$SPAWNED_PID" "$RUN_FOLDER/haproxy.log" accepts "${PORT[haproxy]}"
}

start_router() {
    local as_user=()
    sid_command usr/bin/mysqlrouter
    # It refuses to run as root unless told to.
    [ "$(id -u)" != 0 ] || as_user=(--user=root)
    mkdir "$RUN_FOLDER/router"
    fill_in mysqlrouter.conf "${PORT[router]}" "$RUN_FOLDER/router" >"$RUN_FOLDER/router/router.conf"
    spawn "$RUN_FOLDER/router.log" "${SID_COMMAND[@]}" --config "$RUN_FOLDER/router/router.conf" "${as_user[@]}"
    PID[router]=$SPAWNED_PID
    wait_for "MySQL Router" "$SPAWNED_PID" "$RUN_FOLDER/router.log" accepts "${PORT[router]}"
}

start_ours() {
    mkdir -p "$RUN_FOLDER/ours/rules"
    cat >"$RUN_FOLDER/ours/rules/relay.toml" <<'TOML'
schema = "relay"

[generators.items]
kind = "sequence"

[tables.items]
column = "id"
generator = "items"
TOML
    PROXY_PORT=${PORT[rowstamp]}
    export TOKIO_WORKER_THREADS=$RELAY_THREADS
    start_rowstamp "$RUN_FOLDER/ours"
    PID[rowstamp]=$PROXY_PID
}

# CPU of a process, all its threads, those that ended too: proc(5), utime and stime of /proc/PID/stat, in microseconds.
cpu_us() {
    [ -n "$1" ] || { echo 0; return; }
    awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000000 / hz }' "/proc/$1/stat"
}

# Steal and all CPU time of the host so far, in ticks: proc(5), /proc/stat.
host_ticks() { awk '/^cpu / { all = 0; for (i = 2; i <= 9; i++) all += $i; print $9, all }' /proc/stat; }

# measure WORKLOAD RELAY ROUND: appends one line to the raw file.
measure() {
    local table=items_auto command out cpu_before cpu_after host_before
    [ "$2" != rowstamp ] || table=items
    # Every insert run begins with an empty table; ids go on.
    [[ $1 != insert-* ]] || db -e "TRUNCATE relay.$table"
    read -r -a command <<<"$(command_of "$1")"
    command=("${command[@]/#benches/$HERE/benches}")
    command=("${command[@]/=TABLE/=$table}")
    out=$RUN_FOLDER/out
    host_before=$(host_ticks)
    cpu_before=$(cpu_us "${PID[$2]:-}")
    bench "${PORT[$2]}" "${command[@]}" --time="$SECONDS_EACH" --percentile=99 --rand-seed="$3" run >"$out" 2>&1 \
        || { tail -n 20 "$out" >&2; die "$1 through $2 failed"; }
    cpu_after=$(cpu_us "${PID[$2]:-}")
    awk -v OFS='\t' -v head="$1 $2 $3" -v cpu="$((cpu_after - cpu_before))" -v host="$host_before $(host_ticks)" '
        $1 == "total:" { queries = $2 }
        $1 == "queries:" { gsub(/[(]/, "", $3); rate = $3 }
        /99th percentile/ { p99 = $3 }
        END {
            split(head, h, " "); split(host, t, " ")
            steal = t[4] > t[2] ? 100 * (t[3] - t[1]) / (t[4] - t[2]) : 0
            print h[1], h[2], h[3], rate, p99, cpu / queries, steal
        }' "$out" >>"$RAW"
    tail -n 1 "$RAW" >&2
}

report() {
    echo "$(nproc) cores, MariaDB $(db -e 'SELECT VERSION()'), sysbench $THREADS threads, $ROUNDS rounds of $SECONDS_EACH s, medians; relays with $RELAY_THREADS threads each, data in $(df --output=fstype "$RUN_FOLDER" | tail -n 1);"
    echo "load average before it $LOAD_BEFORE, so that a busy host is seen."
    echo
    awk -F '\t' -f "$HERE/benches/relay/report.awk" "$RAW"
    echo
    echo "Each with \`sysbench ... --time=$SECONDS_EACH run\` (TABLE: the ruled one through Rowstamp, else its AUTO_INCREMENT twin):"
    echo
    local workload
    for workload in "${WORKLOADS[@]}"; do echo "    $workload: $(command_of "$workload")"; done
    [ "$PAIRS" = no ] || { echo; awk -F '\t' -f "$HERE/benches/relay/pairs.awk" "$RAW"; }
}

parse "$@"
LOAD_BEFORE=$(cut -d ' ' -f 1 /proc/loadavg)
programs=(sysbench)
if [[ " ${RELAYS[*]} " == *" haproxy "* ]]; then programs+=(haproxy); fi
"$HERE/tests/install.sh" "${programs[@]}"
need "${programs[@]}"
if [[ " ${RELAYS[*]} " == *" router "* ]]; then sid_command usr/bin/mysqlrouter; fi
if [[ " ${RELAYS[*]} " == *" rowstamp "* ]]; then rowstamp_binary "$HERE"; fi
# The relays are measured, not the disk: one log flush a second, room in the log for all that is written, pages written once.
start_mariadb --innodb-buffer-pool-size=1G --innodb-log-file-size=1G --innodb-flush-log-at-trx-commit=0 \
    --innodb-doublewrite=OFF --innodb-max-dirty-pages-pct=99 --innodb-io-capacity=20000 --innodb-purge-threads=1 --skip-log-bin
load
for relay in "${RELAYS[@]}"; do start_relay "$relay"; done
for ((round = 1; round <= ROUNDS; round++)); do
    for workload in "${WORKLOADS[@]}"; do
        for ((turn = 0; turn < ${#RELAYS[@]}; turn++)); do
            nth=$turn
            ((round % 2)) || nth=$((${#RELAYS[@]} - 1 - turn))
            measure "$workload" "${RELAYS[nth]}" "$round"
        done
    done
done
report
