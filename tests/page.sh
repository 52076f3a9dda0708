#!/usr/bin/env bash
# The page at / of http.address in a headless Chromium, before a proxy with a private MariaDB: it is clicked through, and what it
# shows is compared with /status.json. Then the page of a proxy with thousands of generators. About two minutes.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

SHOTS='' LOAD=40 GENERATORS=5000

usage() {
    cat <<USAGE
tests/page.sh [options]: a line for each check, then "N passed, N failed, N skipped"; ends with 1 if any failed

  --shots FOLDER    write the screenshots page.png, page-dark.png and page-phone.png there, as docs/ has them
  --load SECONDS    of INSERTs, which the plots then show (default $LOAD)
  --generators N    of the second proxy (default $GENERATORS); a tenth of them are used up

  ROWSTAMP_BIN      a built rowstamp; else \`cargo build --release\` makes one
USAGE
}

while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --shots | --load | --generators) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --shots) SHOTS=$(mkdir -p "$2" && cd "$2" && pwd) ;;
        --load) LOAD=$2 ;;
        --generators) GENERATORS=$2 ;;
    esac
    shift 2
done

# feed TABLE ROWS PAUSE: INSERTs, until nobody reads them.
feed() {
    local rows='' nth
    for ((nth = 0; nth < $2; nth++)); do rows+="${rows:+,}($nth)"; done
    while echo "INSERT INTO $1 (a) VALUES $rows;"; do sleep "$3"; done 2>/dev/null
}

LOADS=()
load() { # TABLE ROWS PAUSE
    mariadb --no-defaults --host=127.0.0.1 --port="$PROXY_PORT" --user="$APP_USER" --password="$APP_PASSWORD" shop \
        < <(feed "$@") >/dev/null 2>>"$RUN_FOLDER/load.log" &
    LOADS+=("$!")
    SPAWNED+=("$!")
}

# draw REQUEST TIMES: a client of Redis sends it again and again, and reads the answers.
draw() {
    local port nth
    (wait_for "the Redis protocol" "$PROXY_PID" "$RUN_FOLDER/proxy/rowstamp.log" grep -q 'the Redis protocol is at' "$RUN_FOLDER/proxy/rowstamp.log") || exit
    port=$(sed -n 's/.*the Redis protocol is at 127\.0\.0\.1:\([0-9]*\).*/\1/p' "$RUN_FOLDER/proxy/rowstamp.log")
    exec {redis}<>"/dev/tcp/127.0.0.1/$port" || die "nobody is at the Redis protocol's port"
    printf 'AUTH labels s3cret\r\n' >&"$redis"
    for ((nth = 0; nth <= $2; nth++)); do
        read -r -t 10 _ <&"$redis" || die "no answer of the Redis protocol"
        [ "$nth" = "$2" ] || printf '%s\r\n' "$1" >&"$redis"
    done
}

app() { mariadb --no-defaults --host=127.0.0.1 --port="$PROXY_PORT" --user="$APP_USER" --password="$APP_PASSWORD" "$@"; }

"$HERE/tests/install.sh" chromium node >&2 || true
for program in chromium node; do
    if ! command -v "$program" >/dev/null; then
        echo "SKIPPED: the page: there is no $program on this machine (Debian: apt-get install chromium nodejs)"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done

clean_up_at_end
rowstamp_binary "$HERE"
start_mariadb --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0
db <<'SQL'
CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT UNSIGNED NOT NULL PRIMARY KEY, a INT);
CREATE TABLE shop.order_items (id BIGINT NOT NULL PRIMARY KEY, a INT);
CREATE TABLE shop.events (id BIGINT NOT NULL PRIMARY KEY, a INT);
CREATE TABLE shop.returns (id BIGINT NOT NULL PRIMARY KEY, a INT);
SQL
mkdir -p "$RUN_FOLDER/proxy/rules"
cat >"$RUN_FOLDER/proxy/rules/shop.toml" <<'TOML'
schema = "shop"
[generators.orders]
kind = "sequence"
start = 900000000
[generators.order_items]
kind = "sequence"
batch = 2000
[generators.events]
kind = "timestamp"
layout = "snowflake"
[generators.returns]
kind = "sequence"
[tables.orders]
column = "id"
generator = "orders"
[tables.order_items]
column = "id"
generator = "order_items"
[tables.events]
column = "id"
generator = "events"
[tables.returns]
column = "id"
generator = "returns"
TOML
PROXY_PORT='' HTTP_ADDRESS=127.0.0.1:$(free_port)
PROXY_TABLES='[resp]
address = "127.0.0.1:0"
[api]
address = "127.0.0.1:0"
[admin]
address = "off"
[[admin.users]]
name = "labels"
password = "s3cret"
role = "write"'
start_rowstamp "$RUN_FOLDER/proxy"
draw 'INCRBY shop.returns 3' 40
draw 'INCR shop.nothing' 2
load orders 3 0.02
load order_items 12 0.05
load order_items 2 0.01
load events 1 0.02
app shop -e "INSERT INTO returns (a) VALUES (1), (2)"
app shop -e "INSERT INTO returns (id, a) VALUES (a, 1)" 2>/dev/null && die "an id that names a column was taken"
ROWSTAMP_SHOTS=$SHOTS ROWSTAMP_LOAD=$LOAD ROWSTAMP_LOAD_PIDS="${LOADS[*]}" \
    node "$HERE/tests/page/clicks.mjs" "http://$HTTP_ADDRESS/" "$PROXY_PID"
status=$?
[ "$status" = 0 ] || tail -n 5 "$RUN_FOLDER/proxy/rowstamp.log" >&2
stop "$PROXY_PID"

# A generator a table, by two lines of rules. A table of TINYINT is used up by its 127th row.
{
    echo 'CREATE DATABASE many; USE many;'
    for ((nth = 1; nth <= GENERATORS; nth++)); do
        [ $((nth % 10)) = 0 ] && type=TINYINT || type=BIGINT
        printf 'CREATE TABLE t_%05d (id %s NOT NULL PRIMARY KEY, a INT) STATS_PERSISTENT=0;\n' "$nth" "$type"
        [ "$type" = BIGINT ] || printf 'INSERT INTO t_%05d VALUES (126, 0);\n' "$nth"
    done
} | db || die "the tables cannot be made"
mkdir -p "$RUN_FOLDER/many/rules"
printf 'schema = "many"\ntables."t_*" = { column = "id", generator = "{table}" }\n' >"$RUN_FOLDER/many/rules/many.toml"
PROXY_PORT='' PROXY_TABLES=''
start_rowstamp "$RUN_FOLDER/many"
for ((nth = 1; nth <= GENERATORS; nth++)); do printf 'INSERT INTO t_%05d (a) VALUES (1);\n' "$nth"; done | app many || die "an INSERT failed"
ROWSTAMP_GENERATORS=$GENERATORS node "$HERE/tests/page/many.mjs" "http://$HTTP_ADDRESS/" || status=1
exit "$status"
