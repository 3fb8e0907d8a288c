#!/bin/bash
# Checks the sources with clang-format and clang-tidy; changes nothing.
#
#   tools/check.sh [FILE...]     FILE: only these, as paths from the root
#
# clang-tidy reads the compile commands of build/release, and those of
# build/fuzz where it is configured. The last line printed is
# "N passed, N failed": files checked by either program.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(pwd -P)
export LC_ALL=C # one order for sort and comm

tools/setup.sh
cmake --preset release > /dev/null
# clang-tidy includes what flatc generates.
cmake --build --preset release --target ckptdb_generated

list_sources() {
  if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- '*.cc' '*.h'
  else
    find . -path ./build -prune -o -name '*.cc' -print -o -name '*.h' -print |
      sed 's|^\./||'
  fi | while read -r file; do [[ ! -e ${file} ]] || echo "${file}"; done | sort
}

# The sources compiled by a preset, as paths from the root.
list_compiled() {
  local commands=build/$1/compile_commands.json
  [[ ! -e ${commands} ]] ||
    sed -n -E "s|^ *\"file\": \"${root}/(.*)\",?\$|\1|p" "${commands}" |
    grep -v '^build/' | sort -u
}

work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT

if [[ $# -gt 0 ]]; then
  printf '%s\n' "$@" | sort > "${work}/sources"
else
  list_sources > "${work}/sources"
fi
list_compiled release > "${work}/release"
if [[ ! -s ${work}/release ]]; then
  echo "check.sh: no source in build/release/compile_commands.json" >&2
  exit 1
fi
list_compiled fuzz | comm -23 - "${work}/release" > "${work}/fuzz" || true

passed=$(wc -l < "${work}/sources")
failed=0
# All at once, which is faster; one by one to count those that fail.
if ! xargs -r clang-format --dry-run -Werror < "${work}/sources"; then
  while read -r file; do
    clang-format --dry-run -Werror "${file}" 2> /dev/null ||
      failed=$((failed + 1))
  done < "${work}/sources"
  passed=$((passed - failed))
fi
echo "clang-format: ${passed} passed, ${failed} failed"

# Prints one line a file that fails, "FAILED: file", after its warnings.
tidy() {
  local output
  if ! output=$(clang-tidy --quiet -p "build/$1" "$2" 2>&1); then
    grep -v 'warnings\? .*generated\.$' <<< "${output}" || true
    echo "FAILED: $2"
  fi
}
export -f tidy

for preset in release fuzz; do
  comm -12 "${work}/${preset}" "${work}/sources" > "${work}/tidied"
  xargs -r -P "$(nproc)" -n 1 bash -c 'tidy "$@"' tidy "${preset}" \
    < "${work}/tidied" | tee "${work}/output"
  count=$(wc -l < "${work}/tidied")
  bad=$(grep -c '^FAILED: ' "${work}/output" || true)
  echo "clang-tidy (${preset}): $((count - bad)) passed, ${bad} failed"
  passed=$((passed + count - bad))
  failed=$((failed + bad))
done

echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
