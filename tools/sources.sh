#!/bin/bash
# Compiles each source of the library and of the command by itself, without
# making anything of it. The other presets compile many at once, which hides
# what a source forgot to include.
# The last line printed is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

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
  grep -E ' -c [^ ]+\.cc$' | sort -u > "${work}/commands"
xargs -d '\n' -P "$(nproc)" -I {} bash -c 'check "$0" "$1"' {} "${work}/failed" \
  < "${work}/commands"

sed 's/^/FAILED: /' "${work}/failed"
failed=$(wc -l < "${work}/failed")
echo "$(($(wc -l < "${work}/commands") - failed)) passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
