#!/bin/bash
# Compiles each source of the library and of the command by itself. The other
# presets compile many at once, which hides what a source forgot to include.
# The last line printed is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
log=$(mktemp)
trap 'rm -f "${log}"' EXIT

cmake --preset debug
code=0
cmake --build --preset debug --target ckptdb ckptdb_tool_lib -- -k 0 2>&1 |
  tee "${log}" || code=$?

sources=$(git ls-files 'schema/*.cc' 'db/*.cc' 'manager/*.cc' 'tools/*.cc' |
  grep -cv '^tools/main.cc$')
failed=$(grep -c '^FAILED: ' "${log}" || true)
[[ ${code} -eq 0 || ${failed} -gt 0 ]] || failed=1
echo "$((sources - failed)) passed, ${failed} failed"
exit "${code}"
