#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets and runs each for a few seconds, starting from its
# corpus in tests/fuzz/corpus/<target>.
#
#   tools/fuzz.sh [SECONDS [TARGET...]]
#
# SECONDS is per target, default 5; 0 only replays the corpus. New inputs go
# to a temporary folder, which is kept when a target fails, with the input
# that fails. The last line printed is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-5}
shift || true
if ! [[ ${seconds} =~ ^[0-9]+$ ]]; then
  echo "fuzz.sh: SECONDS is \"${seconds}\", not a whole number" >&2
  exit 2
fi

tools/setup.sh
cmake --preset fuzz
cmake --build --preset fuzz --target fuzzers

work=$(mktemp -d)
passed=0
failed=0

run_target() {
  local name=$1 code=0
  local new=${work}/${name} corpus=tests/fuzz/corpus/${name}
  local -a inputs=("${new}")
  local -a limit=("-max_total_time=${seconds}")
  [[ -z ${CKPTDB_SEED:-} ]] || limit+=("-seed=$((CKPTDB_SEED))")
  mkdir -p "${new}"
  [[ ! -d ${corpus} ]] || inputs+=("${corpus}")
  [[ ${seconds} -gt 0 ]] || limit=(-runs=0)
  echo "== ${name}"
  "build/fuzz/bin/${name}" "${limit[@]}" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 "-artifact_prefix=${work}/${name}-" "${inputs[@]}" \
    > "${work}/${name}.log" 2>&1 || code=$?
  if [[ ${code} -eq 0 ]]; then
    grep -E 'number_of_executed_units|new_units_added' "${work}/${name}.log" ||
      true
    passed=$((passed + 1))
  else
    tail -n 60 "${work}/${name}.log"
    failed=$((failed + 1))
  fi
}

if [[ $# -gt 0 ]]; then
  targets=("$@")
else
  targets=()
  for source in tests/fuzz/*_fuzzer.cc; do
    [[ ! -e ${source} ]] || targets+=("$(basename "${source}" .cc)")
  done
fi
if [[ ${#targets[@]} -eq 0 ]]; then
  echo "fuzz.sh: no tests/fuzz/*_fuzzer.cc" >&2
  exit 1
fi
for target in "${targets[@]}"; do
  run_target "${target}"
done

if [[ ${failed} -gt 0 ]]; then
  echo "Logs and failing inputs are in ${work}"
else
  rm -rf "${work}"
fi
echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
