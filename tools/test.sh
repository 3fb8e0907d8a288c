#!/bin/bash
# Sets up, builds and runs all tests.
#
#   tools/test.sh [PRESET [CTEST ARGUMENT...]]
#   tools/test.sh asan -R keys
#
# PRESET is release (the default), debug, asan, tsan or coverage. The sanitizers'
# presets leave out the installation, asan also the benchmarks, and their long
# tests take fewer cases; where /dev/shm has room, tests that are not about disks
# write there. The last line printed is "N passed, N failed", of test cases, as
# tools/count_tests.awk counts them; a build that fails counts as one failure. The
# exit code is that of the step that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
if [[ $# -gt 0 && $1 != -* ]]; then
  preset=$1
  shift
fi

give_up() {
  echo "test.sh: $2 failed" >&2
  echo "0 passed, 1 failed"
  exit "$1"
}

tools/setup.sh || give_up $? "setting up"

# Under a sanitizer most of the time would go to syncs; what tests do to a disk is
# looked at without one.
folder=
shm_kib=$(df --output=avail /dev/shm 2> /dev/null | tail -n 1 || true)
if [[ ${preset} == [at]san && ${shm_kib:-0} -ge $((4 << 20)) ]]; then
  folder=/dev/shm
fi
cmake --preset "${preset}" -D CKPTDB_TEST_FOLDER="${folder}" ||
  give_up $? "configuring ${preset}"
cmake --build --preset "${preset}" || give_up $? "building ${preset}"

log=build/${preset}/Testing/Temporary/LastTest.log
rm -f "${log}"
code=0
ctest --preset "${preset}" "$@" || code=$?
[[ -f ${log} ]] || give_up $((code == 0 ? 1 : code)) "ctest"

counts=$(awk -f tools/count_tests.awk "${log}")
# A case that ends its process with code 0 is a failure that ctest does not see.
if [[ ${counts} != *" passed, 0 failed" ]]; then
  code=$((code == 0 ? 1 : code))
elif [[ ${code} -ne 0 ]]; then
  give_up "${code}" "ctest"
fi
echo "${counts}"
exit "${code}"
