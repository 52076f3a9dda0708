#!/usr/bin/env bash
# sysbench through the proxy, on MariaDB and on MySQL 9: no error, every row has its id, ids are distinct, and there are
# as many rows as sysbench counted.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

SECONDS_EACH=60 THREADS=16 SERVERS=(mariadb mysql) DIRECT=no
SEEDED=1000  # rows of a table before the run; their ids are 1 to SEEDED
TABLES=4     # of a workload; bulk inserts have one a thread

# NAME SCRIPT PS_MODE IDS. sysbench's oltp_insert (id 0 given, in first place) and bulk_insert (no column list) send text in
# both modes; ours, beside them, leave the id out or give NULL. IDS: who makes them, the generator or the client.
WORKLOADS=(
    "insert_text           oltp_insert                        disable generator"
    "insert_prepared       oltp_insert                        auto    generator"
    "omitted_text          benches/relay/insert.lua           disable generator"
    "omitted_prepared      benches/relay/insert.lua           auto    generator"
    "bulk_text             bulk_insert                        disable client"
    "bulk_prepared         bulk_insert                        auto    client"
    "bulk_null             tests/sysbench/bulk_null.lua       disable generator"
    "read_write_text       oltp_read_write                    disable client"
    "read_write_prepared   oltp_read_write                    auto    client"
    "ruled_write_text      tests/sysbench/read_write_ruled.lua disable generator"
    "ruled_write_prepared  tests/sysbench/read_write_ruled.lua auto    generator"
)

usage() {
    cat <<USAGE
tests/sysbench.sh [options]: one line a workload, then "N passed, N failed"; ends with 1 if any failed

  --seconds N      of each workload (default $SECONDS_EACH)
  --threads N      (default $THREADS)
  --server LIST    of mariadb,mysql (default both)
  --only PATTERN   workloads whose name matches, as in --only '*prepared'
  --direct         without the proxy, on AUTO_INCREMENT tables: proves the checks
  --help

Workloads:
USAGE
    printf '  %s\n' "${WORKLOADS[@]}"
}

parse() {
    ONLY='*'
    while [ $# -gt 0 ]; do
        case $1 in
            --help | -h) usage; exit 0 ;;
            --direct) DIRECT=yes; shift; continue ;;
            --seconds | --threads | --server | --only) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
            *) say "unknown option $1"; usage >&2; exit 2 ;;
        esac
        case $1 in
            --seconds) SECONDS_EACH=$2 ;;
            --threads) THREADS=$2 ;;
            --server) IFS=, read -r -a SERVERS <<<"$2" ;;
            --only) ONLY=$2 ;;
        esac
        shift 2
    done
}

# bench PORT NAME SCRIPT PS_MODE COMMAND: each workload has a database of its own, named as it is. `--secondary`: the id has
# a plain key, so that an id issued twice is seen instead of refused.
bench() {
    local script=$3 options=(--tables="$TABLES" --table-size="$SEEDED")
    case $script in
        bulk_insert | */bulk_null.lua) options=() ;;
        */insert.lua) options=(--table=sbtest1) ;;
        oltp_insert) options+=(--secondary) ;;
    esac
    [[ $script != */* ]] || script=$HERE/$script
    # Where one thread fails within a transaction, the others wait for its locks without end.
    timeout -k 5 $((SECONDS_EACH * 2 + 60)) sysbench "$script" --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port="$1" --mysql-user="$APP_USER" \
        --mysql-password="$APP_PASSWORD" --mysql-db="$2" --db-ps-mode="$4" --threads="$THREADS" --time="$SECONDS_EACH" \
        "${options[@]}" "$5"
}

tables_of() {
    case $1 in
        bulk_insert | */bulk_null.lua) echo "$THREADS" ;;
        */insert.lua) echo 1 ;;
        *) echo "$TABLES" ;;
    esac
}

# Before the proxy starts: tables with rows, and no AUTO_INCREMENT unless --direct.
prepare() { # NAME SCRIPT PS_MODE
    local t count
    db -e "CREATE DATABASE $1"
    if [[ $2 == */insert.lua ]]; then
        db "$1" -e "CREATE TABLE sbtest1 (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL, c VARCHAR(100) NOT NULL, KEY (id))"
    else
        bench "$DB_PORT" "$1" "$2" "$3" prepare >"$RUN_FOLDER/out" 2>&1 || { cat "$RUN_FOLDER/out" >&2; die "prepare of $1 failed"; }
    fi
    count=$(tables_of "$2")
    for ((t = 1; t <= count; t++)); do
        if [ "$DIRECT" = no ]; then
            db "$1" -e "ALTER TABLE sbtest$t MODIFY id INT NOT NULL"
        elif [[ $2 == *bulk* ]]; then
            db "$1" -e "ALTER TABLE sbtest$t MODIFY id INT NOT NULL AUTO_INCREMENT"
        fi
    done
}

rules_of() { # NAME
    cat <<TOML
schema = "$1"

[generators.all]
kind = "sequence"

[tables."sbtest*"]
column = "id"
generator = "all"
TOML
}

# What must be so afterwards, in one line: rows, pairs of table and id, rows without an id, rows with an id made during the
# run, distinct ones of those.
counts() { # NAME SCRIPT
    local t union='' count
    count=$(tables_of "$2")
    for ((t = 1; t <= count; t++)); do union+="${union:+ UNION ALL }SELECT $t AS t, id FROM sbtest$t"; done
    db "$1" -e "SELECT COUNT(*), COUNT(DISTINCT t, id), COALESCE(SUM(id IS NULL OR id <= 0), 0), COALESCE(SUM(id > $SEEDED), 0),
        COUNT(DISTINCT CASE WHEN id > $SEEDED THEN id END) FROM ($union) AS everything"
}

PASSED=0 FAILED=0

verdict() { # LABEL PROBLEM FIGURES
    if [ -z "$2" ]; then
        PASSED=$((PASSED + 1))
        echo "ok      $1: $3"
    else
        FAILED=$((FAILED + 1))
        echo "FAILED  $1: $2 ($3)"
    fi
}

run_workload() { # SERVER PORT NAME SCRIPT PS_MODE IDS
    local out=$RUN_FOLDER/out problem='' events ignored rows pairs missing fresh fresh_distinct before expected
    before=$(counts "$3" "$4" | cut -f 1)
    bench "$2" "$3" "$4" "$5" run >"$out" 2>&1 || problem="sysbench: $( (grep -m 1 FATAL "$out" || tail -n 1 "$out") | cut -c -200)"
    events=$(awk '$1 == "transactions:" { print $2 }' "$out")
    [ -n "${events#0}" ] || events=$(awk '/total number of events:/ { print $5 }' "$out")
    ignored=$(awk '/ignored errors:/ { print $3 }' "$out")
    read -r rows pairs missing fresh fresh_distinct <<<"$(counts "$3" "$4")"
    expected=$((before + ${events:-0}))
    if [ -n "$problem" ]; then :
    elif [ "${events:-0}" = 0 ]; then problem="nothing ran"
    elif [ "$missing" != 0 ]; then problem="$missing rows without an id"
    elif [ "$pairs" != "$rows" ]; then problem="$((rows - pairs)) ids twice in a table"
    else
        case $4 in
            oltp_read_write) [ "$rows" = "$before" ] || problem="$rows rows where $before were" ;;
            */read_write_ruled.lua) [ "$fresh" = "$events" ] || problem="$fresh fresh rows of $events transactions" ;;
            *) [ "$rows" = "$expected" ] || problem="$rows rows where $expected are due" ;;
        esac
        # The tables share one generator: its ids are distinct across them all.
        if [ "$6" = generator ] && [ "$DIRECT" = no ] && [ "$fresh" != "$fresh_distinct" ]; then
            problem="$((fresh - fresh_distinct)) ids issued twice"
        fi
    fi
    verdict "$1 $3" "$problem" "$(awk '$1 == "queries:" { print $3 }' "$out" | tr -d '(') queries/s, $events events, $rows rows, $fresh ids above $SEEDED, ${ignored:-?} ignored errors"
    db -e "DROP DATABASE $3"
}

run_server() { # SERVER
    local line port words chosen=() flush=(--innodb-buffer-pool-size=1G --innodb-flush-log-at-trx-commit=2)
    "start_$1" "${flush[@]}"
    mkdir -p "$RUN_FOLDER/$1/rules"
    for line in "${WORKLOADS[@]}"; do
        read -r -a words <<<"$line"
        # shellcheck disable=SC2053  # a pattern
        [[ ${words[0]} == $ONLY ]] || continue
        chosen+=("$line")
        prepare "${words[@]:0:3}"
        rules_of "${words[0]}" >"$RUN_FOLDER/$1/rules/${words[0]}.toml"
    done
    port=$DB_PORT
    if [ "$DIRECT" = no ]; then
        PROXY_PORT=
        start_rowstamp "$RUN_FOLDER/$1"
        port=$PROXY_PORT
    fi
    for line in "${chosen[@]}"; do
        read -r -a words <<<"$line"
        run_workload "$1" "$port" "${words[@]}"
    done
    [ "$DIRECT" = yes ] || stop "$PROXY_PID"
    stop "$DB_PID"
}

parse "$@"
"$HERE/tests/install.sh" sysbench
need sysbench
clean_up_at_end
[ "$DIRECT" = yes ] || rowstamp_binary "$HERE"
for server in "${SERVERS[@]}"; do run_server "$server"; done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]
