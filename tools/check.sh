#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the sources with clang-format, clang-tidy and clang's thread-safety
# analysis, those of Python with ruff's formatter, and that each names its license;
# changes nothing.
#
#   tools/check.sh [FILE...]     FILE: only these, as paths from the root
#   tools/check.sh -n N          all, but of clang-tidy's units one in N, and of
#                                those of tests one in 2 N, from one that is drawn,
#                                or that CKPTDB_SEED chooses
#
# clang-tidy reads the compile commands of the preset `tidy`, which compiles
# several sources as one: most of the time goes to what they include. It takes
# each such unit that FILE is part of, unless others that it takes have all of
# its sources. Python is checked without FILE, and if build/venv is there; its types
# are a test. The last line printed is "N passed, N failed": files of clang-format
# and ruff, units of clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(pwd -P)
export LC_ALL=C # one order for sort and comm

every=1
if [[ ${1:-} == -n ]]; then
  every=${2:-}
  if ! [[ $# -eq 2 && ${every} =~ ^[1-9][0-9]*$ ]]; then
    echo "check.sh: -n takes a whole number from 1, and no files" >&2
    exit 2
  fi
  shift 2
fi

tools/setup.sh
cmake --preset tidy > /dev/null
# clang-tidy includes what flatc generates.
cmake --build --preset tidy --target ckptdb_generated
# The units of tests are in the folder of the build: so is what they are checked
# with.
ln -sf "${root}/tests/.clang-tidy" build/tidy/tests/.clang-tidy

list_sources() {
  if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- '*.cc' '*.h'
  else
    find . -path ./build -prune -o -name '*.cc' -print -o -name '*.h' -print |
      sed 's|^\./||'
  fi | while read -r file; do [[ ! -e ${file} ]] || echo "${file}"; done | sort
}

work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT

if [[ $# -gt 0 ]]; then
  printf '%s\n' "$@" | sort > "${work}/sources"
else
  list_sources > "${work}/sources"
fi
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

if [[ $# -eq 0 && -x build/venv/bin/ruff ]]; then
  build/venv/bin/ruff format --check --no-cache python examples > "${work}/ruff" ||
    cat "${work}/ruff"
  good=$(sed -n -E 's/.*\b([0-9]+) files? already formatted.*/\1/p' "${work}/ruff")
  bad=$(sed -n -E 's/.*\b([0-9]+) files? would be reformatted.*/\1/p' "${work}/ruff")
  echo "ruff format: ${good:-0} passed, ${bad:-0} failed"
  passed=$((passed + ${good:-0}))
  failed=$((failed + ${bad:-0}))
fi

# What misc-unused-using-decls and misc-unused-alias-decls look for, but only in
# a file that is compiled by itself.
unused=$(xargs -r awk '
  function report(name) {
    for (name in place)
      if (count[name] == 1) print place[name] ": unused: " name
    split("", place)
    split("", count)
  }
  FNR == 1 { report() }
  /^ *(using [A-Za-z0-9_:]+;|namespace [a-z_]+ = .*;)$/ {
    name = $2
    gsub(/.*::|;/, "", name)
    place[name] = FILENAME ":" FNR
  }
  { words = split($0, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= words; ++i) ++count[word[i]] }
  END { report() }' < <(grep '\.cc$' "${work}/sources"))
if [[ -n ${unused} ]]; then
  echo "${unused}"
  failed=$((failed + $(wc -l <<< "${unused}")))
fi

# Scripts and build files name their license as well.
list_others() {
  git ls-files -- '*.cu' '*.fbs' '*.cmake' '*CMakeLists.txt' '*.sh' '*.awk' '*.py' \
    '*.in' \
    .ci/run Dockerfile 2> /dev/null || true
}
unlicensed=$({
  cat "${work}/sources"
  [[ $# -gt 0 ]] || list_others
} | xargs -r grep -L 'SPDX-License-Identifier: Apache-2.0' || true)
if [[ -n ${unlicensed} ]]; then
  sed 's/$/: no "SPDX-License-Identifier: Apache-2.0" at the top/' <<< "${unlicensed}"
  failed=$((failed + $(wc -l <<< "${unlicensed}")))
fi

# The sources of a unit.
list_unit() {
  if [[ $1 == */build/tidy/* ]]; then
    sed -n -E "s|^#include \"${root}/(.*)\"$|\1|p" "$1"
  else
    echo "${1#"${root}/"}"
  fi
}

# The units that have one of the sources, unless units before have all of them.
touch "${work}/taken"
sed -n -E 's/^ *"file": "(.*)",?$/\1/p' build/tidy/compile_commands.json |
  while read -r unit; do
    list_unit "${unit}" | grep -x -F -f "${work}/sources" |
      grep -v -x -F -f "${work}/taken" > "${work}/new" || continue
    cat "${work}/new" >> "${work}/taken"
    echo "${unit}"
  done > "${work}/units"
if [[ ${every} -gt 1 ]]; then
  seed=${CKPTDB_SEED:-${RANDOM}}
  echo "of every ${every} units number $((seed % every + 1))," \
    "of every $((2 * every)) of tests number $((seed % (2 * every) + 1))"
  awk -v every="${every}" -v seed="${seed}" \
    '/\/build\/tidy\/tests\// { if (tests++ % (2 * every) == seed % (2 * every)) print
                                 next }
     others++ % every == seed % every' "${work}/units" > "${work}/some"
  mv "${work}/some" "${work}/units"
fi
if [[ $# -eq 0 && ! -s ${work}/units ]]; then
  echo "check.sh: no unit in build/tidy/compile_commands.json" >&2
  exit 1
fi

# Annotations of what a mutex guards are checked with the rest.
# Prints one line a unit that fails, "FAILED: file", after its warnings.
tidy() {
  local output
  if ! output=$(clang-tidy --quiet -p build/tidy \
    --extra-arg=-Wthread-safety \
    --checks='-bugprone-suspicious-include,clang-diagnostic-thread-safety*' \
    --header-filter="^$1/((bench|cuda|db|manager|mpi|python|remote|schema|tests|tools)/[a-z0-9_/]*[.]h|[a-z0-9_/]*[.]cc)\$" "$2" 2>&1); then
    grep -v 'warnings\? .*generated\.$' <<< "${output}" || true
    echo "FAILED: $2"
  fi
}
export -f tidy

xargs -r -P "$(nproc)" -n 1 bash -c 'tidy "$@"' tidy "${root}" \
  < "${work}/units" | tee "${work}/output"
count=$(wc -l < "${work}/units")
bad=$(grep -c '^FAILED: ' "${work}/output" || true)
echo "clang-tidy: $((count - bad)) passed, ${bad} failed"
passed=$((passed + count - bad))
failed=$((failed + bad))

echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
