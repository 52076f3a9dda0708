#!/usr/bin/env bash
# What many ruled tables cost: a start, a reload and an idle proxy, on a server of many tables. By a pattern, and by exact names.
# Prints a line for each server and kind of rules.
set -uo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/servers.sh
. "$HERE/tests/servers.sh"

TABLES=10000 RULED=5000 IDLE=20 QUIET=65 USED=50 WAIT=600 DELAY=0 KINDS=(mariadb mysql) RULES=(pattern names) STORES=(embedded)

usage() {
    cat <<USAGE
benches/rules.sh [options]: some lines for each server, store and kind of rules

  --tables N       of the server (default $TABLES)
  --ruled N        of them have a rule (default $RULED)
  --idle SECONDS   in which it is counted what the server does meanwhile (default $IDLE)
  --quiet SECONDS  before that, in which nothing is done (default $QUIET: a minute after DDL the proxy looks at views more often)
  --used N         tables that have an INSERT each second in a second count (default $USED)
  --wait SECONDS   for a start or a reload at most (default $WAIT)
  --delay MS       round trip to the server, and to etcd, that a relay in between adds (default $DELAY: no relay)
  --times          starts and reloads only, and nothing that takes minutes: --idle, --quiet and --used have no effect
  --server NAME    mariadb or mysql (default both)
  --rules KIND     pattern; names; generators: names, each with a generator of its own; templates: a pattern that gives each table
                   a generator, "{table}"; or shards: the tables are in 16 databases, and have one generator (default the first two)
  --store KIND     embedded, etcd or mysql: the table in the same server (default embedded)

start        from the process to the line "listening on" in its log; "empty": with an empty store, "again": with that store
first        from the same moment to the answer to the first INSERT into the last ruled table
reload       SIGHUP, from the signal to the line that says the files are active; "same": nothing is changed,
             "all": every table moves to another generator
check        \`rowstamp check --online\`, while no proxy runs
idle         what the server counts a second while nobody is connected: queries, internal temporary tables, and its CPU in
             milliseconds; "used": while tables have an INSERT each second, which is counted with it
shown        the proxy's memory (RSS), and how long /metrics, the page's /status.json and /readyz take, and their sizes

ROWSTAMP_BIN names a binary; without it the release build is made.
USAGE
}

ONLY_TIMES=no
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --times) ONLY_TIMES=yes; shift; continue ;;
        --delay | --store | --tables | --ruled | --idle | --quiet | --used | --wait | --server | --rules) [ $# -ge 2 ] || { say "$1 wants a value"; exit 2; } ;;
        *) say "unknown option $1"; usage >&2; exit 2 ;;
    esac
    case $1 in
        --tables) TABLES=$2 ;;
        --ruled) RULED=$2 ;;
        --idle) IDLE=$2 ;;
        --quiet) QUIET=$2 ;;
        --used) USED=$2 ;;
        --wait) WAIT=$2 ;;
        --delay) DELAY=$2 ;;
        --store) STORES=("$2") ;;
        --server) KINDS=("$2") ;;
        --rules) RULES=("$2") ;;
    esac
    shift 2
done

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.2f", b - a }'; }

# name N: of the N-th ruled table.
name() {
    if [ "$DATABASES" = 1 ]; then printf 'many.r_%05d' "$1"; else printf 'many_%02d.r_%05d' $(($1 % DATABASES)) "$1"; fi
}

make_tables() {
    local options='ENGINE=InnoDB STATS_PERSISTENT=0' nth
    DATABASES=1
    [ "${RULES[*]}" = shards ] && DATABASES=16
    {
        echo "CREATE DATABASE many; USE many;"
        for ((nth = 0; nth < DATABASES; nth++)); do printf 'CREATE DATABASE many_%02d;\n' "$nth"; done
        for ((nth = 1; nth <= RULED; nth++)); do
            echo "CREATE TABLE $(name "$nth") (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(40)) $options;"
        done
        seq 1 "$((TABLES - RULED))" | awk -v o="$options" '{ printf "CREATE TABLE other_%05d (id INT PRIMARY KEY, a INT) %s;\n", $1, o }'
        echo "CREATE VIEW seen AS SELECT * FROM $(name 1);"
    } | db || die "the tables cannot be made"
}

# write_rules KIND GENERATOR
write_rules() {
    if [ "$1" = generators ]; then
        echo 'schema = "many"'
        seq 1 "$RULED" | awk -v g="$2" '{
            printf "[generators.%s_%05d]\nkind = \"sequence\"\n[tables.r_%05d]\ncolumn = \"id\"\ngenerator = \"%s_%05d\"\n", g, $1, $1, g, $1 }'
        return
    fi
    if [ "$1" = templates ]; then
        printf 'schema = "man?"\n[tables."r_*"]\ncolumn = "id"\ngenerator = "%s_{table}"\n' "$2"
        return
    fi
    if [ "$1" = shards ]; then
        printf 'schema = "many_*"\ntables."r_*" = { column = "auto", generator = "ids.%s" }\n' "$2"
        return
    fi
    printf 'schema = "many"\n[generators.%s]\nkind = "sequence"\n' "$2"
    if [ "$1" = pattern ]; then
        printf '[tables."r_*"]\ncolumn = "id"\ngenerator = "%s"\n' "$2"
    else
        seq 1 "$RULED" | awk -v g="$2" '{ printf "[tables.r_%05d]\ncolumn = \"id\"\ngenerator = \"%s\"\n", $1, g }'
    fi
}

app() { mariadb --no-defaults --user="$APP_USER" --password="$APP_PASSWORD" --host=127.0.0.1 --port="$PROXY_PORT" --skip-ssl "$@"; }

# until_line TEXT COUNT: until the proxy's log has that many lines with the text. Dies after $WAIT seconds.
until_line() {
    local ticks
    for ((ticks = 0; ticks < WAIT * 20; ticks++)); do
        [ "$(grep -c "$1" "$FOLDER/rowstamp.log")" -ge "$2" ] && return 0
        kill -0 "$PROXY_PID" 2>/dev/null || break
        sleep 0.05
    done
    tail -n 5 "$FOLDER/rowstamp.log" >&2
    die "no \"$1\" within $WAIT s"
}

# far PORT: FAR_PORT leads to the same, through the relay if there is one.
far() {
    FAR_PORT=$1
    [ "$DELAY" = 0 ] && return
    local said=$RUN_FOLDER/relay.$1
    spawn "$said" "$HERE/benches/relay/delayed.py" "$1" "$DELAY"
    wait_for "the relay" "$SPAWNED_PID" "$said" test -s "$said"
    FAR_PORT=$(<"$said")
}

# start_etcd: sets ETCD_PORT, ETCD_PID.
start_etcd() {
    need etcd
    local peer log=$RUN_FOLDER/etcd.log
    ETCD_PORT=$(free_port) peer=$(free_port)
    rm -rf "$RUN_FOLDER/etcd"
    spawn "$log" etcd --data-dir "$RUN_FOLDER/etcd" --listen-client-urls "http://127.0.0.1:$ETCD_PORT" \
        --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" --listen-peer-urls "http://127.0.0.1:$peer" --log-level error
    ETCD_PID=$SPAWNED_PID
    wait_for etcd "$ETCD_PID" "$log" accepts "$ETCD_PORT"
}

# store_of KIND: what rowstamp.toml says of the store, which is new. STORE_PID: its process, if it has one.
store_of() {
    STORE_PID=
    case $1 in
        etcd)
            start_etcd
            STORE_PID=$ETCD_PID
            far "$ETCD_PORT"
            printf -v STORE 'store.kind = "etcd"\nstore.endpoints = ["127.0.0.1:%s"]\nproxy.name = "p1"' "$FAR_PORT"
            ;;
        mysql)
            db -e "DROP DATABASE IF EXISTS bounds; CREATE DATABASE bounds; GRANT ALL ON bounds.* TO '$CONTROL_USER'@'%'"
            STORE='store.kind = "mysql"'$'\n''store.table = "bounds.rowstamp_bounds"'$'\n''proxy.name = "p1"'
            ;;
        *) STORE='store.path = "rowstamp.redb"' ;;
    esac
}

# started: STARTED and FIRST, in seconds.
started() {
    local begun ticks
    : >"$FOLDER/rowstamp.log"
    begun=$(now)
    spawn "$FOLDER/rowstamp.log" "$ROWSTAMP_BIN" serve --config "$FOLDER/rowstamp.toml"
    PROXY_PID=$SPAWNED_PID
    until_line 'listening on' 1
    STARTED=$(since "$begun")
    for ((ticks = 0; ticks < WAIT * 20; ticks++)); do
        app -e "INSERT INTO $(name "$RULED") (a) VALUES (1)" 2>/dev/null && break
        sleep 0.05
    done
    FIRST=$(since "$begun")
}

# reloaded GENERATOR: RELOADED, in seconds.
reloaded() {
    local begun before
    before=$(grep -c 'the files are active' "$FOLDER/rowstamp.log")
    write_rules "$KIND" "$1" >"$FOLDER/rules/many.toml"
    begun=$(now)
    kill -HUP "$PROXY_PID"
    until_line 'the files are active' $((before + 1))
    RELOADED=$(since "$begun")
}

# checked: CHECKED, in seconds.
checked() {
    local begun status
    begun=$(now)
    "$ROWSTAMP_BIN" check --online --config "$FOLDER/rowstamp.toml" >"$FOLDER/check.out" 2>&1
    status=$?
    CHECKED=$(since "$begun")
    [ "$status" -le 1 ] || die "check ends with $status: $(tail -n 3 "$FOLDER/check.out")"
}

count() { db -e "SHOW GLOBAL STATUS LIKE '$1'" | cut -f 2; }
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$DB_PID/stat"; }

# counted: what the server does a second, in COUNTED. Our own looks at it are a query and a temporary table each.
counted() {
    local queries tables ticks
    queries=$(count Questions) tables=$(count Created_tmp_tables) ticks=$(cpu_ticks)
    sleep "$IDLE"
    ticks=$(($(cpu_ticks) - ticks)) tables=$(($(count Created_tmp_tables) - tables)) queries=$(($(count Questions) - queries))
    COUNTED=$(awk -v s="$IDLE" -v c="$ticks" -v t="$tables" -v q="$queries" -v own="$(own_cost)" 'BEGIN {
        split(own, o); t -= o[2]; q -= o[1]
        printf "%.1f queries, %.1f temporary tables, %.1f ms CPU", q / s, (t > 0 ? t : 0) / s, c * 10 / s }')
}

# own_cost: queries and temporary tables of one measurement, by one that has nothing in between.
own_cost() {
    local queries tables
    queries=$(count Questions) tables=$(count Created_tmp_tables)
    tables=$(($(count Created_tmp_tables) - tables)) queries=$(($(count Questions) - queries))
    echo "$queries $tables"
}

# shown: SHOWN, what the proxy takes and shows.
shown() {
    local memory path one
    memory=$(awk '/^VmRSS:/ { printf "%.0f MiB", $2 / 1024 }' "/proc/$PROXY_PID/status")
    SHOWN="memory $memory"
    for path in metrics status.json readyz; do
        one=$(curl -fsS -o /dev/null -w '%{time_total} %{size_download}' "http://$HTTP_ADDRESS/$path") || die "/$path is not answered"
        SHOWN+=$(awk -v p="$path" -v o="$one" 'BEGIN { split(o, n, " "); printf "; /%s %.0f ms, %.0f KiB", p, n[1] * 1000, n[2] / 1024 }')
    done
}

use_tables() {
    local second nth
    for ((second = 0; second < IDLE + 3; second++)); do
        for ((nth = 1; nth <= USED; nth++)); do echo "INSERT INTO $(name "$nth") (a) VALUES (1);"; done
        sleep 1
    done | app
}

measure() {
    local server=$1 store=$3 empty again first same all idle used user seen
    KIND=$2 FOLDER=$RUN_FOLDER/$1.$2.$3
    mkdir -p "$FOLDER/rules"
    write_rules "$KIND" one >"$FOLDER/rules/many.toml"
    if [ "$KIND" = shards ]; then
        printf 'schema = "ids"\ngenerators.one.kind = "sequence"\ngenerators.two.kind = "sequence"\n' >"$FOLDER/rules/ids.toml"
    fi
    store_of "$store"
    PROXY_PORT=$(free_port) HTTP_ADDRESS=127.0.0.1:$(free_port)
    cat >"$FOLDER/rowstamp.toml" <<TOML
listen.address = "127.0.0.1:$PROXY_PORT"
backend.address = "127.0.0.1:$SERVER_PORT"
backend.control.user = "$CONTROL_USER"
backend.control.password = "$CONTROL_PASSWORD"
state.path = "state"
$STORE
rules.path = "rules"
rules.watch = false
http.address = "$HTTP_ADDRESS"
TOML
    chmod 600 "$FOLDER/rowstamp.toml"
    started
    empty=$STARTED first=$FIRST
    if [ "$ONLY_TIMES" = no ]; then
        sleep "$QUIET"
        counted
        idle=$COUNTED
        use_tables &
        user=$!
        sleep 2
        counted
        used=$COUNTED
        wait "$user" || die "an INSERT failed"
    fi
    shown
    seen=$SHOWN
    reloaded one
    same=$RELOADED
    reloaded two
    all=$RELOADED
    stop "$PROXY_PID"
    checked
    started
    again=$STARTED
    stop "$PROXY_PID"
    [ -z "$STORE_PID" ] || stop "$STORE_PID"
    printf '%s, %s, %s ms, %d of %d tables by %s: start %s s empty (first %s s), %s s again; reload %s s same, %s s all; check %s s\n' \
        "$server" "$store" "$DELAY" "$RULED" "$TABLES" "$KIND" "$empty" "$first" "$again" "$same" "$all" "$CHECKED"
    [ "$ONLY_TIMES" = yes ] || printf '%s, %s, a second: idle %s; %d used %s\n' "$server" "$KIND" "$idle" "$USED" "$used"
    printf '%s, %s, shown: %s\n' "$server" "$KIND" "$seen"
}

clean_up_at_end
rowstamp_binary "$HERE"
for server in "${KINDS[@]}"; do
    case $server in
        mariadb) more=(--innodb-log-file-size=64M) ;;
        *) more=(--innodb-redo-log-capacity=64M) ;;
    esac
    "start_$server" --innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync --innodb-doublewrite=OFF "${more[@]}"
    db -e "GRANT SHOW VIEW ON *.* TO '$CONTROL_USER'@'%'"
    make_tables
    far "$DB_PORT"
    SERVER_PORT=$FAR_PORT
    for store in "${STORES[@]}"; do
        for rules in "${RULES[@]}"; do measure "$server" "$rules" "$store"; done
    done
    stop "$DB_PID"
done
