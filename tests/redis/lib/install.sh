# shellcheck shell=bash
# What each language's clients need, one function a language, as in drivers/lib/install.sh, which is sourced before. All goes to redis/target.

install_cli() {
    needs redis-cli redis-tools
}

install_python() {
    needs python3 python3 || return
    mkdir -p "$HERE/target"
    once target/venv "$HERE/python/requirements.txt" -- venv
}

venv() {
    apt_packages python3-venv
    python3 -m venv --clear "$HERE/target/venv" &&
        "$HERE/target/venv/bin/pip" install -q --disable-pip-version-check -r "$HERE/python/requirements.txt"
}

install_node() {
    needs node nodejs && needs npm npm || return
    mkdir -p "$HERE/target/node" && cd "$HERE/target/node" || return
    cp "$HERE"/node/{package.json,package-lock.json,.npmrc} . || return
    once target/node package-lock.json -- npm ci --no-fund --no-audit --loglevel=error
}

install_java() {
    needs java default-jdk-headless && needs mvn maven || return
    mkdir -p "$HERE/target/java"
    cd "$HERE/java" && once target/java/installed pom.xml src/main/java/rowstamp/*.java -- nice -n 19 mvn -q -B compile
}

install_go() {
    needs go golang-go || return
    # A toolchain of 1.21 or later fetches the one that go.mod names; bookworm's own does not.
    if ! [[ $(go version) =~ go1\.(2[1-9]|[3-9][0-9]) ]]; then
        echo "$(go version) cannot build them: go 1.21 or newer is needed"
        return "$ABSENT"
    fi
    mkdir -p "$HERE/target/go"
    cd "$HERE/go" && nice -n 19 go build -o "$HERE/target/go/" ./...
}

install_rust() {
    needs cargo cargo || return
    cd "$HERE/rust" && nice -n 19 cargo build --quiet --locked --target-dir "$HERE/target/rust"
}
