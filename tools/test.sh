#!/bin/bash
# Sets up, builds and runs all tests.
#
#   tools/test.sh [PRESET [CTEST ARGUMENT...]]
#   tools/test.sh asan -R keys
#
# PRESET is release (the default), debug, asan, tsan or coverage. The sanitizers'
# presets leave out the installation, asan also the benchmarks, and their long
# tests take fewer cases. The last line printed is "N passed, N failed"; a build
# that fails counts as one failure. The exit code is that of the step that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
if [[ $# -gt 0 && $1 != -* ]]; then
  preset=$1
  shift
fi

log=$(mktemp)
trap 'rm -f "${log}"' EXIT

give_up() {
  echo "test.sh: $2 failed" >&2
  echo "0 passed, 1 failed"
  exit "$1"
}

tools/setup.sh || give_up $? "setting up"
cmake --preset "${preset}" || give_up $? "configuring ${preset}"
cmake --build --preset "${preset}" || give_up $? "building ${preset}"

code=0
ctest --preset "${preset}" "$@" 2>&1 | tee "${log}" || code=$?

# ctest's closing line: "97% tests passed, 3 tests failed out of 120"
counts=$(sed -n -E \
  's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' \
  "${log}" | tail -n 1)
[[ -n ${counts} ]] || give_up $((code == 0 ? 1 : code)) "ctest"
read -r failed total <<< "${counts}"
echo "$((total - failed)) passed, ${failed} failed"
exit "${code}"
