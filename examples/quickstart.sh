#!/usr/bin/env bash
# Rowstamp in five minutes: a private MariaDB, the proxy in front of it, and INSERTs whose ids the proxy makes.
# `examples/quickstart.sh --help` shows the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin

usage() {
    cat <<'TEXT'
examples/quickstart.sh [--keep]

Installs missing packages (Debian bookworm; as root, or as a user with sudo), builds rowstamp, and shows it at work on a
private MariaDB in a temporary folder. Leaves nothing running, and connects to no other server.

  --keep   keep the servers running after the demonstration, and print how to connect; Ctrl-C stops them

  CARGO_TARGET_DIR   the folder where cargo builds, if not target/
TEXT
}

keep=no
case ${1:-} in
    '') ;;
    --keep) keep=yes ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
esac

if [ -t 1 ]; then bold=$'\033[1m' colour=$'\033[36m' plain=$'\033[0m'; else bold='' colour='' plain=''; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
note() { printf '  %s\n' "$*"; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null || die "cannot install packages: run this as root, or install sudo"
        sudo "$@"
    fi
}

# The -core packages have MariaDB's programs without its service: nothing starts, now or at boot.
missing_packages() {
    command -v cc >/dev/null || echo gcc
    [ -e /usr/include/stdio.h ] || echo libc6-dev
    # etcd's interface is compiled from its definitions, which import the well-known types.
    command -v protoc >/dev/null || echo protobuf-compiler
    [ -e /usr/include/google/protobuf/descriptor.proto ] || echo libprotobuf-dev
    command -v mariadbd >/dev/null || echo mariadb-server-core
    command -v mariadb >/dev/null || echo mariadb-client-core
}

install_missing() {
    local packages
    command -v cargo >/dev/null || die "cargo is not installed; install it from https://rustup.rs"
    mapfile -t packages < <(missing_packages)
    if [ ${#packages[@]} = 0 ]; then
        note "a C compiler, protoc and MariaDB are installed"
        return
    fi
    command -v apt-get >/dev/null || die "this system has no apt-get; install: ${packages[*]}"
    note "installing ${packages[*]}"
    local log=$folder/apt.log
    { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 \
        || { tail -n 20 "$log" >&2; die "the installation failed"; }
}

# Names what is not here after all: a package of another system may bring less.
need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || die "$program is not on the PATH; install it"
    done
}

# CARGO_TARGET_DIR or cargo's own configuration may say another place than target/.
target_folder() {
    cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}

build() {
    rowstamp=$(target_folder)/release/rowstamp
    rowstamp=${rowstamp#"$PWD"/}
    [ -x "$rowstamp" ] || note "building rowstamp; the first time takes some minutes"
    cargo build --release --locked --quiet --bin rowstamp || die "the build failed"
    [ -x "$rowstamp" ] || die "cargo did not build $rowstamp"
    note "$rowstamp: built"
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/rowstamp-quickstart.XXXXXX")
# A MariaDB that starts deletes the temporary tables of all others whose tmpdir it shares.
export TMPDIR=$folder
server_pid='' proxy_pid=''

# stop PID: TERM, and KILL after 20 seconds.
stop() {
    local pid=$1 tenths
    [ -n "$pid" ] || return 0
    for ((tenths = 0; tenths < 200; tenths++)); do
        [ $tenths -gt 0 ] || kill "$pid" 2>/dev/null || true
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

clean_up() {
    local status=$?
    trap - EXIT INT TERM HUP
    stop "$proxy_pid"
    stop "$server_pid"
    rm -rf "$folder"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

answers() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
    local port
    while port=$((RANDOM % 12000 + 20000)); answers "$port"; do :; done
    echo "$port"
}

# wait_for WHAT PID LOG COMMAND...: until the command succeeds; fails with the log if the process ends before.
wait_for() {
    local what=$1 pid=$2 log=$3 tenths
    shift 3
    for ((tenths = 0; tenths < 600; tenths++)); do
        if "$@" >/dev/null 2>&1; then return; fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$log" >&2
    die "$what did not start"
}

# The server's root, by its socket.
administer() { mariadb --no-defaults --user=root --socket="$folder/mariadb.sock"; }

start_server() {
    server_port=$(free_port)
    mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$folder/data" --skip-test-db \
        --auth-root-authentication-method=normal --force --skip-name-resolve >"$folder/install.log" 2>&1 \
        || { tail -n 20 "$folder/install.log" >&2; die "mariadb-install-db failed"; }
    mariadbd --no-defaults --user="$(id -un)" --datadir="$folder/data" --socket="$folder/mariadb.sock" \
        --bind-address=127.0.0.1 --port="$server_port" >"$folder/mariadb.log" 2>&1 &
    server_pid=$!
    wait_for MariaDB "$server_pid" "$folder/mariadb.log" administer </dev/null
    note "MariaDB    127.0.0.1:$server_port, in $folder"
}

# The application's account, Rowstamp's own (it reads columns and highest ids, and takes locks), and tables whose ids nobody makes.
create_shop() {
    administer <<'SQL'
CREATE DATABASE shop;
CREATE USER app@'%' IDENTIFIED BY 'app-password';
GRANT ALL ON shop.* TO app@'%';
CREATE USER rowstamp@'%' IDENTIFIED BY 'control-password';
GRANT SELECT, SHOW VIEW ON shop.* TO rowstamp@'%';
USE shop;
CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, customer VARCHAR(40) NOT NULL, total DECIMAL(8,2));
CREATE TABLE order_items_0 (id BIGINT NOT NULL PRIMARY KEY, order_id BIGINT NOT NULL, product VARCHAR(40) NOT NULL);
CREATE TABLE order_items_1 LIKE order_items_0;
SQL
}

start_proxy() {
    cat >"$folder/rowstamp.toml" <<TOML
[listen]
address = "127.0.0.1:$proxy_port"
[backend]
address = "127.0.0.1:$server_port"
[backend.control]
user = "rowstamp"
password = "control-password"
[store]
path = "rowstamp.redb"
[rules]
path = "$PWD/rules"
[http]
address = "off"
TOML
    chmod 600 "$folder/rowstamp.toml"
    "$rowstamp" serve --config "$folder/rowstamp.toml" >"$folder/rowstamp.log" 2>&1 &
    proxy_pid=$!
    wait_for Rowstamp "$proxy_pid" "$folder/rowstamp.log" grep -q 'listening on' "$folder/rowstamp.log"
}

# One session of an ordinary client, through the proxy: the statements, then what they gave.
session() {
    local statement
    for statement in "$@"; do printf '  %sshop>%s %s;\n' "$colour" "$plain" "$statement"; done
    application --table -e "$(printf '%s;\n' "$@")" | sed 's/^/  /'
}

application() {
    mariadb --no-defaults --host=127.0.0.1 --port="$proxy_port" --user=app --password=app-password shop "$@"
}

show_rows() {
    session "SELECT * FROM orders"
    session "SELECT 0 AS shard, i.* FROM order_items_0 i UNION ALL SELECT 1, i.* FROM order_items_1 i ORDER BY id"
}

check_ids() {
    local ids rows distinct lowest
    ids=$(application --batch --skip-column-names -e "
        SELECT COUNT(*), COUNT(DISTINCT id), MIN(id) FROM orders;
        SELECT COUNT(*), COUNT(DISTINCT id), MIN(id) FROM
            (SELECT id FROM order_items_0 UNION ALL SELECT id FROM order_items_1) AS items")
    while read -r rows distinct lowest; do
        if [ "$rows" = 0 ] || [ "$rows" != "$distinct" ] || [ "$lowest" -lt 1 ]; then
            die "$rows rows have $distinct distinct ids, from $lowest"
        fi
    done <<<"$ids"
    note "every row has a different id"
}

main() {
    title "Setting up"
    install_missing
    need cc protoc mariadbd mariadb-install-db mariadb
    build
    start_server
    create_shop
    proxy_port=$(free_port)
    start_proxy
    note "Rowstamp   127.0.0.1:$proxy_port, with rules/shop.toml; its store is $folder/rowstamp.redb"

    title "INSERTs without ids, into tables without AUTO_INCREMENT, through an ordinary client"
    session "INSERT INTO orders (customer, total) VALUES ('Ada', 12.50)" \
        "SET @ada = LAST_INSERT_ID()" \
        "INSERT INTO order_items_0 (order_id, product) VALUES (@ada, 'tea'), (@ada, 'cups')" \
        "INSERT INTO order_items_1 SET order_id = @ada, product = 'honey'" \
        "INSERT INTO orders VALUES (NULL, 'Grace', 7.20), (DEFAULT, 'Edsger', 31.00)" \
        "SELECT LAST_INSERT_ID()"
    show_rows

    title "kill -9 of the proxy, and a restart"
    kill -9 "$proxy_pid"
    wait "$proxy_pid" 2>/dev/null || true
    start_proxy
    note "Rowstamp runs again; it skips the unused ids of its last range and repeats none"
    session "INSERT INTO orders (customer) VALUES ('Barbara'), ('Donald')" \
        "SELECT LAST_INSERT_ID()" \
        "INSERT INTO order_items_1 (order_id, product) VALUES (LAST_INSERT_ID(), 'paper')"
    show_rows
    check_ids

    title "Where to go next"
    note "docs/first-table.md      a table of your own, step by step"
    note "docs/rules.md            rules for several tables, and timestamp ids"
    note "docs/config.md           every key of the configuration"
    note "docs/refused.md          which statements are refused, and what to write instead"
    note "$rowstamp explain \"INSERT ...\"   what would be sent to the server"
}

main
if [ $keep = yes ]; then
    title "Still running"
    note "connect:  mariadb --host=127.0.0.1 --port=$proxy_port --user=app --password=app-password shop"
    note "directly: mariadb --host=127.0.0.1 --port=$server_port --user=app --password=app-password shop"
    note "stop:     Ctrl-C here, or kill $$"
    trap 'echo; exit 0' INT TERM
    wait -n "$proxy_pid" "$server_pid" || true
    die "a server ended by itself; the end of the proxy's log: $(tail -n 3 "$folder/rowstamp.log")"
fi
