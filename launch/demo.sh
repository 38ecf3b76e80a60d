#!/usr/bin/env bash
# Installs into a virtual environment and does the main job end to end; further key=value words go to `embodied demo`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
exec "$VENV/bin/embodied" demo "$@"
