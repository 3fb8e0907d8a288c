#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds with coverage counters, runs all tests, and reports the lines of
# schema/, db/ and manager/ that no test runs.
#
#   tools/coverage.sh [CTEST ARGUMENT...]
#
# A process that is killed, as in the crash tests, leaves no counts. Prints one
# line per file and per folder: lines run, lines, percent. The uncovered lines
# are in build/coverage/uncovered.txt, as FILE:LINE. The last line printed is
# the tests' "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(pwd -P)
build=${root}/build/coverage

log=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "${log}" "${work}"' EXIT

if [[ -d ${build} ]]; then find "${build}" -name '*.gcda' -delete; fi
code=0
tools/test.sh coverage "$@" 2>&1 | tee "${log}" || code=$?

# Prints "FILE LINE COUNT" for each place where a line was compiled.
count_lines() {
  find "${build}" -path "${build}/tests" -prune -o -name '*.gcda' -print |
    while read -r counts; do
      gcov --stdout --branch-counts --object-file "${counts}" \
        "${counts%.gcda}.o" 2> /dev/null
    done |
    awk -F: -v root="${root}/" '
      $3 == "Source" { file = $4
        known = index(file, root) == 1
        file = substr(file, length(root) + 1)
        known = known && file ~ /^(schema|db|manager)\// }
      known && $2 + 0 > 0 && $1 !~ /-/ {
        gsub(/[ *]/, "", $1)
        print file, $2 + 0, $1 ~ /[#=]/ ? 0 : $1 }'
}

(cd "${work}" && count_lines) |
  awk -v uncovered="${build}/uncovered.txt" '
    { line = $1 ":" $2
      if (!(line in runs)) runs[line] = 0
      runs[line] += $3 > 0 }
    END {
      for (line in runs) {
        file = line
        sub(/:.*/, "", file)
        folder = file
        sub(/\/.*/, "/", folder)
        ++all[file]; ++all[folder]
        if (runs[line]) { ++ran[file]; ++ran[folder] }
        else print line | "sort -t: -k1,1 -k2,2n > " uncovered
      }
      for (name in all)
        printf "%-34s %6d %6d %6.1f %%\n", name, ran[name], all[name],
          100 * ran[name] / all[name] | "sort"
    }'

tail -n 1 "${log}"
exit "${code}"
