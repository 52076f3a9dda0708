# shellcheck shell=bash
# What each language's programs need, one function a language; sourced by run.sh.
# 0: ready. 3: the language cannot be had on this machine (its programs are SKIPPED). Else: they FAIL, the output tells why.
# All versions are pinned by the manifests; where packages come from is the machine's own configuration.

ABSENT=3

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# apt_packages NAME...: installs those that are missing; false where that is not possible here.
apt_packages() {
  local missing=() name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${Status}' "$name" 2>/dev/null) == "install ok"* ]] || missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return 0
  echo "installing ${missing[*]}"
  # Lanes install at once: one waits for the other's lock. A machine that never asked its mirrors has no lists.
  local get=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq)
  local install=("${get[@]}" install -y --no-install-recommends "${missing[@]}")
  as_root "${install[@]}" >/dev/null 2>&1 || { as_root "${get[@]}" update >/dev/null && as_root "${install[@]}" >/dev/null; }
}

# needs COMMAND PACKAGE...: the command, from the packages if the machine has not got it.
needs() {
  local command=$1
  shift
  command -v "$command" >/dev/null || apt_packages "$@" && command -v "$command" >/dev/null || return "$ABSENT"
}

# once NAME FILE... -- COMMAND...: runs the command only if the files changed since it last succeeded.
once() {
  local stamp=$HERE/$1.stamp files=() sum
  shift
  while [ "$1" != -- ]; do
    files+=("$1")
    shift
  done
  shift
  sum=$(cat "${files[@]}" | sha256sum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ] && return 0
  "$@" && echo "$sum" >"$stamp"
}

install_python() {
  needs python3 python3 || return
  cd "$HERE/python" || return
  once python/.venv/installed requirements.txt -- python_packages
}

python_packages() {
  # mysqlclient is the one that is built here.
  apt_packages python3-venv python3-dev gcc pkg-config default-libmysqlclient-dev
  python3 -m venv --clear .venv && .venv/bin/pip install -q --disable-pip-version-check -r requirements.txt
}

install_node() {
  needs node nodejs && needs npm npm || return
  cd "$HERE/node" && once node/node_modules/installed package-lock.json -- npm ci --no-fund --no-audit --loglevel=error
}

install_java() {
  needs java default-jdk-headless && needs mvn maven || return
  cd "$HERE/java" && once java/target/installed pom.xml src/main/java/drivers/*.java -- mvn -q -B compile
}

install_go() {
  needs go golang-go || return
  cd "$HERE/go" || return
  # A toolchain of 1.21 or later fetches the one that go.mod names; bookworm's own does not.
  if ! [[ $(go version) =~ go1\.(2[1-9]|[3-9][0-9]) ]]; then
    echo "$(go version) cannot build them: go 1.21 or newer is needed"
    return "$ABSENT"
  fi
  mkdir -p target && go build -o target/ ./...
}

install_php() {
  needs php php-cli || return
  local has='exit(extension_loaded("pdo_mysql") ? 0 : 1);'
  php -r "$has" || apt_packages php-mysql && php -r "$has" || return "$ABSENT"
}

install_ruby() {
  needs ruby ruby || return
  ruby -e 'require "mysql2"' 2>/dev/null || apt_packages ruby-mysql2 && ruby -e 'require "mysql2"' || return "$ABSENT"
}

install_rust() {
  needs cargo cargo || return
  cd "$HERE/rust" && cargo build --quiet --locked --target-dir target
}
