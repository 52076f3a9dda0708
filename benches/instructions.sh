#!/usr/bin/env bash
# Instructions a statement, by callgrind: one build beside another, on one private MariaDB.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

EVENTS=5000
WORKLOADS=(point-select update-non-index insert-text insert-prepared)

usage() {
    cat <<USAGE
benches/instructions.sh [--events N] BINARY...: one line a workload, with the instructions a statement of each binary, and the ratio to the first

  --events N   statements of each measurement (default $EVENTS), after as many that are not counted
  --help

Valgrind does not know rustix's own system calls. Build the binaries with

    RUSTFLAGS="--cfg rustix_use_libc" cargo build --release --target-dir target/callgrind

Needs valgrind and sysbench, which tests/install.sh installs where they are missing. What Rowstamp does in the background meanwhile is
counted too: two runs of one binary on a busy machine differ by up to 2.5 %, and by 10 % from those on an idle one.
USAGE
}

BINARIES=()
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --events) EVENTS=${2:?}; shift 2 ;;
        -*) say "unknown option $1"; usage >&2; exit 2 ;;
        *) BINARIES+=("$(realpath "$1")"); shift ;;
    esac
done
[ ${#BINARIES[@]} -gt 0 ] || { usage >&2; exit 2; }

# run WORKLOAD: its statements, from one client.
run() {
    local command
    case $1 in
        point-select) command=(oltp_point_select --table-size=1000) ;;
        update-non-index) command=(oltp_update_non_index --table-size=1000) ;;
        insert-text) command=("$HERE/benches/relay/insert.lua" --db-ps-mode=disable) ;;
        insert-prepared) command=("$HERE/benches/relay/insert.lua" --db-ps-mode=auto) ;;
    esac
    sysbench "${command[@]}" --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port="$PROXY_PORT" --mysql-user="$APP_USER" \
        --mysql-password="$APP_PASSWORD" --mysql-db=relay --threads=1 --events="$EVENTS" --time=0 --rand-seed=1 run \
        >"$RUN_FOLDER/out" 2>&1 || { tail -n 20 "$RUN_FOLDER/out" >&2; die "$1 failed"; }
}

control() { callgrind_control "$@" "$PROXY_PID" >"$RUN_FOLDER/control" 2>&1 || { cat "$RUN_FOLDER/control" >&2; die "callgrind_control failed"; }; }

# measure NTH BINARY: writes "WORKLOAD INSTRUCTIONS" for each workload to $RUN_FOLDER/NTH.
measure() {
    local workload dump folder=$RUN_FOLDER/$1.proxy
    mkdir -p "$folder/rules"
    printf 'schema = "relay"\n[generators.g]\nkind = "sequence"\n[tables.items]\ncolumn = "id"\ngenerator = "g"\n' >"$folder/rules/relay.toml"
    printf '#!/bin/sh\nexec valgrind --tool=callgrind --callgrind-out-file=%q %q "$@"\n' "$folder/counts" "$2" >"$folder/rowstamp"
    chmod +x "$folder/rowstamp"
    ROWSTAMP_BIN=$folder/rowstamp PROXY_PORT=
    start_rowstamp "$folder"
    for workload in "${WORKLOADS[@]}"; do
        run "$workload"
        rm -f "$folder"/counts*
        control --zero
        run "$workload"
        control --dump
        dump=$(find "$folder" -name 'counts.*' -size +0 | head -n 1)
        [ -n "$dump" ] || die "callgrind wrote no counts"
        awk -v of="$workload" -v n="$EVENTS" '/^(totals|summary):/ { all = $2 } END { printf "%s %.0f\n", of, all / n }' "$dump" >>"$RUN_FOLDER/$1"
        tail -n 1 "$RUN_FOLDER/$1" >&2
    done
    stop "$PROXY_PID"
}

clean_up_at_end
"$HERE/tests/install.sh" sysbench valgrind
need sysbench valgrind callgrind_control
export TOKIO_WORKER_THREADS=1
start_mariadb --innodb-flush-log-at-trx-commit=0 --skip-log-bin
db -e "CREATE DATABASE relay; CREATE TABLE relay.items (id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, c VARCHAR(100) NOT NULL)"
sysbench oltp_point_select --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port="$DB_PORT" --mysql-user="$APP_USER" \
    --mysql-password="$APP_PASSWORD" --mysql-db=relay --table-size=1000 prepare >/dev/null || die "sysbench prepare failed"
for ((nth = 0; nth < ${#BINARIES[@]}; nth++)); do measure "$nth" "${BINARIES[nth]}"; done
for workload in "${WORKLOADS[@]}"; do
    for ((nth = 0; nth < ${#BINARIES[@]}; nth++)); do sed -n "s/^$workload //p" "$RUN_FOLDER/$nth"; done \
        | awk -v of="$workload" 'NR == 1 { first = $1 } { line = line sprintf("  %d (%.3f)", $1, $1 / first) } END { print of ":" line }'
done
