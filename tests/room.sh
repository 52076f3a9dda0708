# shellcheck shell=bash
# Sourced by tests/run.sh and tests/campaigns.sh: whether the disk has room for a run.

# A target folder takes 6 to 10 GB, servers' data another.
ROOM_GB_MIN=8

# need_room: says how much room there is; ends the script where it is too little, instead of a test that fails by it an hour later.
need_room() {
    local folder free
    for folder in "${CARGO_TARGET_DIR:-$PWD}" "${TMPDIR:-/tmp}"; do
        # A target folder is made by the first build.
        while [[ ! -d $folder ]]; do folder=$(dirname "$folder"); done
        free=$(($(df --output=avail -k "$folder" | tail -n 1) / 1024 / 1024))
        printf '== %d GB free in %s\n' "$free" "$folder" >&2
        if ((free < ROOM_GB_MIN)); then
            echo "FAILED: the disk of $folder has $free GB free, and a run needs $ROOM_GB_MIN: remove what is not needed (target/ of other checkouts)"
            echo "0 passed, 1 failed, 0 skipped"
            exit 1
        fi
    done
}
