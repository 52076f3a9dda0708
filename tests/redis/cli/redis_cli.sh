#!/usr/bin/env bash
# redis-cli: one command a start, commands from a pipe, and --pipe. It is given one proxy alone, so there is nothing that it could go on with
# after a kill. See ../README.md.
set -uo pipefail

MODE=$1
PORT=${ROWSTAMP_PORTS%% *}
ORDERS=shop.orders STEPPED=shop.stepped T=shop.t NOPE=shop.nope
case $MODE in
    *tls) FLAGS=(--tls --cacert "$ROWSTAMP_CA") ;;
    *) FLAGS=("-${MODE: -1}") ;;
esac
[[ $MODE != cluster* ]] || FLAGS+=(-c)

CHECKS=0 WRONG=0
declare -A IDS=()

same() { # WHAT FOUND EXPECT
    CHECKS=$((CHECKS + 1))
    [ "$2" = "$3" ] && return
    WRONG=$((WRONG + 1))
    echo "WRONG $1: ${2//$'\n'/ }, and not ${3//$'\n'/ }"
}

says() { # WHAT FOUND PATTERN
    CHECKS=$((CHECKS + 1))
    # shellcheck disable=SC2053 # a pattern
    [[ $2 == $3 ]] && return
    WRONG=$((WRONG + 1))
    echo "WRONG $1: $2"
}

# drawn WHAT KEY ID...: nobody has had them.
drawn() {
    local id
    CHECKS=$((CHECKS + 1))
    for id in "${@:3}"; do
        if [[ $id != [0-9]* || -n ${IDS[$2 $id]:-} ]]; then
            WRONG=$((WRONG + 1))
            echo "WRONG $1: $id"
            return
        fi
        IDS[$2 $id]=1
    done
}

as() { # USER PASSWORD ARGUMENT...
    redis-cli -h 127.0.0.1 -p "$PORT" "${FLAGS[@]}" --user "$1" --pass "$2" --no-auth-warning "${@:3}" 2>&1
}
cli() { as labels s3cret "$@"; }

# span FIRST COUNT STEP
span() { seq "$1" "$3" $(($1 + ($2 - 1) * $3)); }

# draw KEY STEP: the last id is in LAST.
draw() {
    local first ids run
    first=$(cli INCR "$1")
    drawn "INCR $1" "$1" "$first"
    LAST=$(cli INCRBY "$1" 10)
    same "INCRBY $1 10" "$LAST" $((first + 10 * $2))
    # shellcheck disable=SC2046 # words
    drawn "INCRBY $1 10" "$1" $(span $((first + $2)) 10 "$2")
    ids=$(for _ in {1..100}; do echo "INCR $1"; done | cli)
    same "100 INCR $1 from a pipe" "$ids" "$(span $((LAST + $2)) 100 "$2")"
    # shellcheck disable=SC2086 # words
    drawn "100 INCR $1 from a pipe" "$1" $ids
    LAST=$((LAST + 100 * $2))
    # shellcheck disable=SC2016 # the dollars are Redis's
    says "100 INCR $1 by --pipe" "$(for _ in {1..100}; do printf '*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n' ${#1} "$1"; done | cli --pipe)" \
        "*errors: 0, replies: 100"
    # shellcheck disable=SC2046 # words
    drawn "100 INCR $1 by --pipe" "$1" $(span $((LAST + $2)) 100 "$2")
    LAST=$((LAST + 100 * $2))
    mapfile -t run < <(cli ROWSTAMP.TAKE "$1" 5)
    same "ROWSTAMP.TAKE $1 5" "${run[*]}" "$((LAST + $2)) 5 $2"
    # shellcheck disable=SC2046 # words
    drawn "ROWSTAMP.TAKE $1 5" "$1" $(span $((LAST + $2)) 5 "$2")
    LAST=$((LAST + 5 * $2))
}

draw_timestamps() {
    local first last ids run at sum=0
    first=$(cli INCR "$T")
    last=$(cli INCRBY "$T" 10)
    ids=$(for _ in {1..100}; do echo "INCR $T"; done | cli)
    # shellcheck disable=SC2046,SC2086 # words
    drawn "INCR, INCRBY 10 and 100 INCR $T" "$T" "$first" $(span $((last - 9)) 10 1) $ids
    same "$T ascends" "$(printf '%s\n' "$first" $((last - 9)) "$last" "$ids" | sort -cn 2>&1)" ""
    mapfile -t run < <(cli ROWSTAMP.TAKE "$T" 10)
    for ((at = 0; at < ${#run[@]}; at += 3)); do
        # shellcheck disable=SC2046 # words
        drawn "ROWSTAMP.TAKE $T 10" "$T" $(span "${run[at]}" "${run[at + 1]}" "${run[at + 2]}")
        sum=$((sum + run[at + 1]))
    done
    same "ROWSTAMP.TAKE $T 10: how many" "$sum" 10
    says "ROWSTAMP.DECODE $T" "$(cli ROWSTAMP.DECODE "$T" "$first")" "time*node*[01]*sequence*"
}

same "GET before the first id" "$(cli GET "$ORDERS")" ""
draw "$ORDERS" 1
same "GET $ORDERS" "$(cli GET "$ORDERS")" "$LAST"
same MGET "$(cli MGET "$ORDERS" "$NOPE" "$ORDERS")" "$LAST"$'\n\n'"$LAST"
same EXISTS "$(cli EXISTS "$ORDERS" "$STEPPED" "$NOPE")" 2
same TYPE "$(cli TYPE "$ORDERS")" string
draw "$STEPPED" 10
draw_timestamps
same ROWSTAMP.LIST "$(cli ROWSTAMP.LIST)" "$ORDERS"$'\n'"$STEPPED"$'\n'"$T"
says "INCR $NOPE" "$(cli INCR "$NOPE")" "ERR the rules have no generator*"
says SET "$(cli SET "$ORDERS" 1)" "ERR unknown command 'SET'*"
says "INCRBY 0" "$(cli INCRBY "$ORDERS" 0)" "ERR 0 is not a number of ids*"
says MULTI "$(cli MULTI)" "ERR unknown command 'MULTI'*"
same "GET as a reader" "$(as reader r3ad GET "$ORDERS")" "$(cli GET "$ORDERS")"
says "INCR as a reader" "$(as reader r3ad INCR "$ORDERS")" "NOPERM *"
says "a wrong password" "$(as reader wrong GET "$ORDERS")" "*WRONGPASS*NOAUTH*"
says "no login" "$(redis-cli -p "$PORT" "${FLAGS[@]}" GET "$ORDERS" 2>&1)" "*NOAUTH*"
case $MODE in
    resp3) says "--json" "$(cli --json INCRBY "$ORDERS" 5)" "[0-9]*" ;;
    tls) says "without TLS" "$(redis-cli -p "$PORT" PING 2>&1)" "*this port needs TLS*" ;;
    cluster*) says "CLUSTER INFO" "$(cli CLUSTER INFO)" "*cluster_state:ok*" ;;
esac
drawn "INCR $ORDERS after all errors" "$ORDERS" "$(cli INCR "$ORDERS")"
[ "$WRONG" = 0 ] || exit 1
[[ $MODE != cluster* ]] || echo "note a kill cannot be tried: it is given one proxy"
echo "ok $(redis-cli --version): $CHECKS checks"
