#!/usr/bin/env bash
# Installs into a virtual environment and runs the tests. --all: the slow ones too; other words go to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"
if [ "${1:-}" = "--all" ]; then
    shift
    set -- -m "slow or not slow" "$@"
fi
exec "$VENV/bin/python" -m pytest "$@"
