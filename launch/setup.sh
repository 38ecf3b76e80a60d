# Sourced by demo.sh and test.sh: a virtual environment with everything installed, in $VENV.
# EMBODIED_VENV=<folder> uses or makes that one instead of .venv; PYTHON=<program> chooses the interpreter.
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="${EMBODIED_VENV:-$ROOT/.venv}"

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.11 python3.12 python3.13; do
        [ -n "$candidate" ] || continue
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$candidate"; return; }
    done
    echo "Python 3.11 or newer is needed; set PYTHON=<program>" >&2
    return 1
}

install_graphics() {
    # MuJoCo draws without a screen through EGL or OSMesa.
    ldconfig -p 2>/dev/null | grep -qE 'libEGL\.so\.1|libOSMesa\.so' && return 0
    local packages="libegl1 libgl1 libosmesa6"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $packages" >&2
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $packages; } >/dev/null 2>&1 && return 0
    fi
    echo "no library to draw with; install it with: sudo apt-get install -y $packages" >&2
    return 1
}

install_project() {
    local python stamp want
    if [ ! -x "$VENV/bin/python" ]; then
        python="$(find_python)" || return 1
        echo "making the virtual environment $VENV" >&2
        "$python" -m venv "$VENV" || { echo "could not make it; on Debian: sudo apt-get install -y python3-venv" >&2; return 1; }
    fi
    stamp="$VENV/.embodied-control"
    want="$ROOT $(cksum < "$ROOT/pyproject.toml")"
    [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return 0
    echo "installing (about 6 GB with torch; minutes, once)" >&2
    "$VENV/bin/python" -m pip install -q --disable-pip-version-check -e "$ROOT[all]" || return 1
    echo "$want" > "$stamp"
}

install_graphics || exit 1
install_project || exit 1
