#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs all tests.
#
#   tools/test.sh [-t PROGRAM,...] [PRESET [CTEST ARGUMENT...]]
#   tools/test.sh asan -R keys
#   tools/test.sh -t db_tests,schema_tests asan
#
# With -t it builds and runs only these test programs, without those that need a
# tool that this machine lacks, such as nvcc.
# PRESET is release (the default), debug, asan, tsan or coverage. The sanitizers'
# presets leave out the installation, asan also the benchmarks, and their long
# tests take fewer cases; where /dev/shm has room, tests that are not about disks
# write there. The last line printed is "N passed, N failed", of test cases, as
# tools/count_tests.awk counts them; a build that fails counts as one failure. The
# exit code is that of the step that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=()
if [[ ${1:-} == -t ]]; then
  IFS=, read -r -a programs <<< "${2:-}"
  if [[ ${#programs[@]} -eq 0 ]]; then
    echo "test.sh: -t takes the names of test programs, such as db_tests" >&2
    exit 2
  fi
  shift 2
fi
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
if [[ ${#programs[@]} -gt 0 ]]; then
  targets=$(cmake --build --preset "${preset}" --target help)
  for i in "${!programs[@]}"; do
    grep -q "^${programs[i]}: " <<< "${targets}" && continue
    echo "test.sh: no program ${programs[i]} in ${preset}"
    unset "programs[i]"
  done
  [[ ${#programs[@]} -gt 0 ]] || give_up 1 "looking for the programs"
fi
cmake --build --preset "${preset}" ${programs[@]:+--target "${programs[@]}"} ||
  give_up $? "building ${preset}"

log=build/${preset}/Testing/Temporary/LastTest.log
rm -f "${log}"
code=0
# The name of a test begins with that of its program.
only=()
if [[ ${#programs[@]} -gt 0 ]]; then
  only=(-R "^($(IFS='|' && echo "${programs[*]}"))[.]")
fi
ctest --preset "${preset}" ${only[@]:+"${only[@]}"} "$@" || code=$?
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
