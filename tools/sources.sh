#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compiles each source of the library and of the command by itself, without
# making anything of it. The other presets compile many at once, which hides
# what a source forgot to include.
#
#   tools/sources.sh [N]   one source in N, from one that is drawn, or that
#                          CKPTDB_SEED chooses; default 1
#
# The last line printed is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

every=${1:-1}
if ! [[ ${every} =~ ^[1-9][0-9]*$ ]]; then
  echo "sources.sh: N is \"${every}\", not a whole number from 1" >&2
  exit 2
fi
first=$((${CKPTDB_SEED:-RANDOM} % every))
echo "of every ${every} sources number $((first + 1))"

tools/setup.sh
cmake --preset debug
cmake --build --preset debug --target ckptdb_generated
work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT

# The compiler only reads: a third of the time goes to the code that it would
# write, and to the list of what it has included.
check() {
  cd build/debug
  local source=${1##* }
  eval "$(sed -E 's/ -M[DTF]( [^ ]+\.d| [^ ]+\.o)?//g' <<< "$1") -fsyntax-only" ||
    echo "${source}" >> "$2"
}
export -f check

touch "${work}/failed"
ninja -C build/debug -t commands ckptdb ckptdb_tool_lib |
  grep -E ' -c [^ ]+\.cc$' | sort -u |
  awk -v every="${every}" -v first="${first}" 'NR % every == first' \
    > "${work}/commands"
xargs -d '\n' -P "$(nproc)" -I {} bash -c 'check "$0" "$1"' {} "${work}/failed" \
  < "${work}/commands"

sed 's/^/FAILED: /' "${work}/failed"
failed=$(wc -l < "${work}/failed")
echo "$(($(wc -l < "${work}/commands") - failed)) passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
