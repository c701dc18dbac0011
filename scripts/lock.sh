#!/bin/sh
# Resolves every lock file anew. Hashes only: no address of an index gets into them.
set -eu
cd "$(dirname "$0")/.."
resolve() { .venv/bin/uv pip compile -q --universal --generate-hashes --no-header --no-annotate "$@"; }
resolve pyproject.toml -o requirements.lock
resolve pyproject.toml --group dev -o requirements-dev.lock
for group in uv build node; do
  resolve --group "$group" -o "scripts/locks/$group.lock"
done
# Beside the code that reads it, so that it is in the wheel; deploy/sandbox has a link to it.
resolve --python-version 3.11 deploy/sandbox/toolbox.in -o src/deerflow/sandbox/local/toolbox.lock
