#!/usr/bin/env bash
# Installs what the tests need on Debian bookworm, only what is missing: a C compiler, MariaDB 10.11, etcd, Redis 7.0, protoc
# (Debian's own), and a Debian sid root with MySQL 9 and MariaDB 11.8. Works as root and as an ordinary user with sudo. Starts no service.
#
#   tests/install.sh                    what `cargo test` needs
#   tests/install.sh PROGRAM...         these alone: sysbench (tests/sysbench.sh, benches/relay.sh), haproxy (benches/relay.sh),
#                                       valgrind (benches/instructions.sh), ip, nft, faketime (tests/chaos.sh), chromium, node (tests/page.sh),
#                                       promtool (tests/alerts.sh)
#
#   ROWSTAMP_SID_ROOT       where the sid root lives (default /var/tmp/rowstamp-sid)
#   ROWSTAMP_DEBIAN_MIRROR  where it is fetched from (default: the mirror that apt uses)
#   CI=true                 Debian's own programs are required: their lack is a failure and not a SKIPPED
set -euo pipefail

sid_root=${ROWSTAMP_SID_ROOT:-/var/tmp/rowstamp-sid}
# Their packages conflict with MySQL's: unpacked beside them, not installed.
mariadb_11_packages="mariadb-server-core mariadb-server mariadb-client-core libmariadb3"
sid_packages=mysql-server-core,mysql-client-core,mysql-router,etcd-server,etcd-client
stamp=rowstamp-recipe
policy=/usr/sbin/policy-rc.d
# Daemons live in sbin, which an ordinary user's PATH lacks.
PATH=$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    else
        sudo "$@"
    fi
}

can_be_root() {
    [[ $(id -u) == 0 ]] || has sudo
}

skipped() {
    printf 'SKIPPED: %s\n' "$*" >&2
}

# A file on the PATH: a shell's own `kill` helps no test.
has() {
    type -P "$1" >/dev/null
}

# Program and the package that brings it.
needed_packages() {
    local program package
    while read -r program package; do
        has "$program" || printf '%s\n' "$package"
    done <<'LIST'
cc gcc
kill procps
mariadbd mariadb-server-core
mariadb-install-db mariadb-server-core
mariadb mariadb-client-core
mariadb-binlog mariadb-client
my_print_defaults mariadb-client-core
etcd etcd-server
etcdctl etcd-client
protoc protobuf-compiler
debootstrap debootstrap
faketime faketime
redis-server redis-server
redis-cli redis-tools
LIST
    # The plugins that logins are tested with; the package's service is kept from starting like the others'.
    [[ -e /usr/lib/mysql/plugin/auth_ed25519.so ]] || echo mariadb-server
    # Recommended by gcc only, and nothing links without it.
    [[ -e /usr/include/stdio.h ]] || echo libc6-dev
    # protoc alone lacks the well-known types, which etcd's definitions import.
    [[ -e /usr/include/google/protobuf/descriptor.proto ]] || echo libprotobuf-dev
}

# Debian calls the packages as the programs are called, but for these.
named_packages() {
    local program
    for program in "$@"; do
        has "$program" && continue
        case $program in
            ip) echo iproute2 ;;
            nft) echo nftables ;;
            node) echo nodejs ;;
            promtool) echo prometheus ;;
            *) printf '%s\n' "$program" ;;
        esac
    done
}

# Packages may start their services when they are configured, unless policy-rc.d says 101.
forbid_services() {
    if [[ -e $policy ]]; then
        local answer=0
        "$policy" mariadb start >/dev/null 2>&1 || answer=$?
        [[ $answer == 101 ]] && return
        as_root mv "$policy" "$policy.before-rowstamp"
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    trap restore_policy EXIT
}

restore_policy() {
    as_root rm -f "$policy"
    if [[ -e $policy.before-rowstamp ]]; then
        as_root mv "$policy.before-rowstamp" "$policy"
    fi
}

# install_packages NAME...
install_packages() {
    local -a missing=("$@")
    [[ ${#missing[@]} == 0 ]] && return
    if ! can_be_root || ! has apt-get; then
        skipped "cannot install ${missing[*]}: this needs apt-get and root or sudo"
        return
    fi
    forbid_services
    as_root apt-get update -q || skipped "apt-get update failed"
    # One by one if all at once fails, so that one package's lack does not cost the others.
    local package
    if ! install_now "${missing[@]}"; then
        for package in "${missing[@]}"; do
            install_now "$package" || skipped "$package cannot be installed"
        done
    fi
    # What was not here before must not start with the next boot either.
    has systemctl || return 0
    for package in "${missing[@]}"; do
        case $package in
            etcd-server) as_root systemctl disable etcd.service >/dev/null 2>&1 || true ;;
            mariadb-server) as_root systemctl disable mariadb.service >/dev/null 2>&1 || true ;;
            haproxy) as_root systemctl disable haproxy.service >/dev/null 2>&1 || true ;;
            redis-server) as_root systemctl disable redis-server.service >/dev/null 2>&1 || true ;;
            prometheus) as_root systemctl disable prometheus.service >/dev/null 2>&1 || true ;;
        esac
    done
}

# rustup's minimal profile has neither; they belong to the toolchain that builds.
install_components() {
    has rustup || return 0
    has cargo-fmt && has cargo-clippy && return 0
    rustup component add rustfmt clippy || skipped "rustfmt and clippy cannot be installed"
}

install_now() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# The mirror that this machine's apt uses for Debian itself.
debian_mirror() {
    # shellcheck disable=SC2016 # apt expands these, not the shell
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk '$1 == "Debian" { print $2; exit }'
}

# What the root was made of, written when it was whole: one of other packages, or of half a run, is made again.
recipe() {
    printf '%s\n' "$sid_packages" "$mariadb_11_packages"
}

# sid_runs PROGRAM: it starts, and says its version.
sid_runs() {
    local libraries=usr/lib/x86_64-linux-gnu:usr/lib/mysql/private:usr/lib/mysql-router:opt/mariadb/usr/lib/x86_64-linux-gnu
    "$sid_root/lib64/ld-linux-x86-64.so.2" --library-path "$sid_root/${libraries//:/:$sid_root/}" "$sid_root/$1" --version >/dev/null 2>&1
}

sid_root_is_whole() {
    local program
    [[ $(cat "$sid_root/$stamp" 2>/dev/null) == "$(recipe)" ]] || return
    for program in usr/sbin/mysqld usr/bin/mysql usr/bin/mysqlrouter usr/bin/etcd opt/mariadb/usr/sbin/mariadbd; do
        sid_runs "$program" || return
    done
}

make_sid_root() {
    if sid_root_is_whole; then
        return
    fi
    if ! has debootstrap || ! can_be_root; then
        skipped "MySQL 9: no debootstrap, or neither root nor sudo"
        return
    fi
    if [[ -e $sid_root && ! -e $sid_root/var/lib/dpkg ]]; then
        skipped "MySQL 9: $sid_root exists and is no Debian root; move it away or set ROWSTAMP_SID_ROOT"
        return
    fi
    local mirror=${ROWSTAMP_DEBIAN_MIRROR:-$(debian_mirror)}
    local building=$sid_root.tmp.$$
    # Made beside its place and renamed: a run that was cut short leaves nothing that looks whole.
    if as_root timeout 1200 debootstrap --variant=minbase "--include=$sid_packages" sid "$building" \
        "${mirror:-http://deb.debian.org/debian}" >&2 && unpack_mariadb_11 "$building" &&
        recipe | as_root tee "$building/$stamp" >/dev/null; then
        as_root rm -rf --one-file-system "$sid_root"
        as_root mv -T "$building" "$sid_root"
        sid_root_is_whole || skipped "MySQL 9: the programs of $sid_root do not run on this machine"
        return
    fi
    as_root tail -n 5 "$building/debootstrap/debootstrap.log" >&2 || true
    as_root umount "$building/proc" "$building/sys" 2>/dev/null || true
    as_root rm -rf --one-file-system "$building"
    skipped "MySQL 9 and MariaDB 11.8: the Debian sid root cannot be made from ${mirror:-the default mirror}"
}

# In opt/mariadb of the root that is being made: parsec, which MariaDB 10.11 lacks.
unpack_mariadb_11() { # ROOT
    local place=$1/opt/mariadb package
    as_root mkdir -p "$place/packages"
    # shellcheck disable=SC2086 # a list of words
    as_root chroot "$1" sh -c "cd /opt/mariadb/packages && apt-get download -q $mariadb_11_packages" >&2 || return
    for package in "$place"/packages/*.deb; do as_root dpkg -x "$package" "$place" || return; done
    as_root rm -rf "$place/packages"
}

# check_required PROGRAM...
check_required() {
    local program failed=0
    for program in "$@"; do
        has "$program" && continue
        skipped "$program is not on this machine, nor are the tests that need it"
        failed=1
    done
    if [[ $failed == 1 && ${CI:-} == true ]]; then
        echo "CI=true: what is missing is required" >&2
        return 1
    fi
}

main() {
    local -a packages
    if [[ $# -gt 0 ]]; then
        mapfile -t packages < <(named_packages "$@")
        install_packages "${packages[@]}"
        check_required "$@"
        return
    fi
    mapfile -t packages < <(needed_packages | sort -u)
    install_packages "${packages[@]}"
    install_components
    make_sid_root
    check_required cc kill mariadbd mariadb-install-db mariadb etcd protoc
}

# On one line: bash reads a script as it runs it, and a checkout may change the file meanwhile.
main "$@"; exit
