# shellcheck shell=bash
# The proxies that the programs speak to; sourced by redis.sh, after servers.sh, whose SPAWNED they are in.
# shellcheck disable=SC2034 # redis.sh and servers.sh read what is set here

PIDS=() PORTS=() CA=''

# up NTH MODE: a proxy with a new store, resp.tls.mode MODE; its pid and port are in PIDS and PORTS. The ids of the first begin at 1, those of
# the second at a billion, and of its timestamps at another node: nobody has an id of both.
up() {
    local folder=$RUN_FOLDER/proxy-$1 start=1 stepped=7 certificate=''
    CA=$RUN_FOLDER/proxy-1/state/tls.pem
    if [ "$1" = 2 ]; then
        start=1000000000 stepped=1000000007
        # The first has made it. All that Rowstamp makes have one subject: of two that a client trusts, OpenSSL finds one.
        certificate="cert = \"$CA\""$'\n'"key = \"$CA\""
    fi
    rm -rf "$folder"
    mkdir -p "$folder/rules"
    cat >"$folder/rules/shop.toml" <<TOML
schema = "shop"

[generators.orders]
kind = "sequence"
start = $start

[generators.stepped]
kind = "sequence"
start = $stepped
step = 10
offset = 7

[generators.t]
kind = "timestamp"
layout = "snowflake"
node = $(($1 - 1))
TOML
    start_door "$folder" "the Redis protocol" <<TOML || return
[proxy]
name = "redis-$1"
[resp]
address = "127.0.0.1:0"
[resp.tls]
mode = "$2"
$certificate
[[admin.users]]
name = "reader"
password = "r3ad"
role = "read"
TOML
    # The shell is not to tell that it was killed.
    disown "$DOOR_PID"
    PIDS[$1]=$DOOR_PID PORTS[$1]=$DOOR_PORT
}

# down: ends all that `up` started.
down() {
    local pid
    for pid in "${PIDS[@]}"; do stop "$pid"; done
    PIDS=() PORTS=() SPAWNED=()
    rm -rf "$RUN_FOLDER"/proxy-*
}
