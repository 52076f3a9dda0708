#!/usr/bin/env bash
# What goes by way of a temporary table beside the same natively, in one run: LOAD DATA LOCAL, and INSERT ... SELECT, of many rows.
# Prints a line for each server and round, with the proxy's highest resident memory.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

ROWS=1000000 ROUNDS=3 KINDS=(mariadb mysql)

usage() {
    cat <<USAGE
benches/stage.sh [--rows N] [--rounds N] [--server mariadb|mysql]

Rows and rounds: $ROWS and $ROUNDS unless told. A ratio is proxied to native, each into a table that was emptied before.
ROWSTAMP_BIN names a binary; without it the release build is made.
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --rows) ROWS=${2:?} ;;
        --rounds) ROUNDS=${2:?} ;;
        --server) KINDS=("${2:?}") ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    shift 2
done

# seconds PORT SQL: how long the statement takes.
seconds() {
    local begun
    begun=$(date +%s.%N)
    mariadb --no-defaults --user="$APP_USER" --password="$APP_PASSWORD" --host=127.0.0.1 --port="$1" --local-infile=1 \
        --skip-ssl -e "$2" bench || die "failed: $2"
    awk -v a="$begun" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }'
}

# pair SQL, with @TABLE@ in it: natively and through the proxy.
pair() {
    local native proxied
    db -e 'TRUNCATE TABLE bench.native'
    native=$(seconds "$DB_PORT" "${1//@TABLE@/native}")
    db -e 'TRUNCATE TABLE bench.proxied'
    proxied=$(seconds "$PROXY_PORT" "${1//@TABLE@/proxied}")
    [ "$(db -e 'SELECT COUNT(DISTINCT id) FROM bench.proxied')" = "$ROWS" ] || die "rows without an id of their own"
    awk -v n="$native" -v p="$proxied" 'BEGIN { printf "%.2f s, %.2f proxied, ratio %.2f", n, p, p / n }'
}

measure() {
    local kind=$1 round loaded
    "start_$kind" --local-infile=ON
    db -e "CREATE DATABASE bench; CREATE TABLE bench.native (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL, b VARCHAR(40));
        CREATE TABLE bench.proxied LIKE bench.native; CREATE TABLE bench.source (a INT, b VARCHAR(40))"
    db -e "GRANT TRIGGER ON bench.* TO '$CONTROL_USER'@'%'"
    seconds "$DB_PORT" "LOAD DATA LOCAL INFILE '$RUN_FOLDER/rows.txt' INTO TABLE source" >/dev/null
    mkdir -p "$RUN_FOLDER/$kind.proxy/rules"
    printf 'schema = "bench"\n[generators.g]\nkind = "sequence"\n[tables.proxied]\ncolumn = "id"\ngenerator = "g"\n' \
        >"$RUN_FOLDER/$kind.proxy/rules/bench.toml"
    PROXY_PORT=
    start_rowstamp "$RUN_FOLDER/$kind.proxy"
    for ((round = 1; round <= ROUNDS; round++)); do
        loaded=$(pair "LOAD DATA LOCAL INFILE '$RUN_FOLDER/rows.txt' INTO TABLE @TABLE@ (a, b)") || exit
        printf '%s: LOAD %s; SELECT %s; memory %d MiB\n' "$kind" "$loaded" \
            "$(pair 'INSERT INTO @TABLE@ (a, b) SELECT a, b FROM source')" \
            "$(($(awk '/^VmHWM/ { print $2 }' "/proc/$PROXY_PID/status") / 1024))"
    done
    stop "$PROXY_PID"
    stop "$DB_PID"
}

clean_up_at_end
rowstamp_binary "$HERE"
awk -v n="$ROWS" 'BEGIN { for (i = 0; i < n; i++) printf "%d\tname %d\n", i, i }' >"$RUN_FOLDER/rows.txt"
for kind in "${KINDS[@]}"; do measure "$kind"; done
