#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes and tests what PyPI gets of the Python package:
#
#   tools/wheel.sh [FOLDER]      FOLDER: default build/wheels
#
#   FOLDER/ckptdb-VERSION.tar.gz                               the sources
#   FOLDER/ckptdb-VERSION-cp310-abi3-manylinux_*.whl           built from them
#
# The wheel contains the shared libraries of Debian that the extension needs, and
# their notices. Then clean virtual environments install the wheel, one for each
# CPython from 3.10 that this machine has, and one installs the sources; a program
# saves, restores and reads in each. The last line printed is "N passed, N failed",
# of such checks. Without PyPI nothing is built, and the exit code is 0.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
check() { # NAME COMMAND...
  local name=$1
  shift
  if "$@"; then
    echo "passed: ${name}"
    passed=$((passed + 1))
  else
    echo "failed: ${name}"
    failed=$((failed + 1))
  fi
}
finish() {
  echo "${passed} passed, ${failed} failed"
  exit $((failed > 0))
}
give_up() {
  echo "wheel.sh: $* failed" >&2
  failed=$((failed + 1))
  finish
}
pip() { # PYTHON ARGUMENT...
  "$1" -m pip --disable-pip-version-check "${@:2}"
}

tools/setup.sh
root=$(pwd -P)
if [[ ! -x build/venv/bin/python ]]; then
  echo "wheel.sh: skipped, as there is no build/venv"
  finish
fi
dist=${1:-build/wheels}
mkdir -p "${dist}"
dist=$(cd "${dist}" && pwd -P)
rm -f "${dist}"/ckptdb-*.whl "${dist}"/ckptdb-*.tar.gz
work=${root}/build/wheel-work
rm -rf "${work}"
mkdir -p "${work}"
trap 'rm -rf "${work}"' EXIT

# The pinned tools build; the environment of build/venv stays as it is.
/usr/bin/python3 -m venv "${work}/tools"
python=${work}/tools/bin/python
if ! pip "${python}" install --quiet --retries 1 --timeout 20 --only-binary :all: \
  --require-hashes -r python/requirements-wheel.txt; then
  echo "wheel.sh: skipped, as PyPI cannot be reached"
  finish
fi
export PATH=${work}/tools/bin:${PATH}
# Those of other builds here, which ccache then knows.
export CC=${CC:-/usr/bin/cc} CXX=${CXX:-/usr/bin/c++}

"${python}" -m build --outdir "${work}/built" . || give_up "building"
sdist=$(echo "${work}"/built/ckptdb-*.tar.gz)
wheel=$(echo "${work}"/built/ckptdb-*.whl)

# The notices of the libraries that the wheel will contain, by Debian package.
"${python}" -m zipfile -e "${wheel}" "${work}/wheel"
extension=${work}/wheel/ckptdb/_core.abi3.so
licenses=$(cd "${work}/wheel" && echo ckptdb-*.dist-info/licenses)
# Prints "LIBRARY PACKAGE" of each library that the extension is linked with.
list_libraries() {
  local library package
  ldd "${extension}" | sed -n -E 's|.* => (/[^ ]+) .*|\1|p' | xargs realpath |
    while read -r library; do
      # /lib is /usr/lib, but a package owns the file under one of the names.
      package=$({ dpkg-query --search "${library}" "${library#/usr}" || true; } \
        2> /dev/null | sed -n -E '1s/^([^:]+):.*/\1/p')
      echo "$(basename "${library}") ${package}"
    done
}
list_libraries > "${work}/libraries"
mkdir -p "${work}/notices/${licenses}"
# FlatBuffers, nlohmann/json and Chart.js are compiled in.
for package in $(cut -d ' ' -f 2 "${work}/libraries" | sort -u) libflatbuffers-dev \
  libjs-chart.js nlohmann-json3-dev; do
  case ${package} in
    libc6 | libgcc-s1 | libstdc++6 | zlib1g) continue ;; # every Linux has these
  esac
  cp "/usr/share/doc/${package}/copyright" \
    "${work}/notices/${licenses}/${package}.txt" || give_up "copying the notices"
done
"${python}" - "${wheel}" "${work}/notices" << 'END' || give_up "adding the notices"
import pathlib, sys, zipfile

folder = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(sys.argv[1], "a", zipfile.ZIP_DEFLATED) as wheel:
    for file in sorted(folder.rglob("*.txt")):
        wheel.write(file, file.relative_to(folder))
END
"${python}" -m auditwheel repair --wheel-dir "${dist}" "${wheel}" ||
  give_up "auditwheel repair"
cp "${sdist}" "${dist}"
wheel=$(echo "${dist}"/ckptdb-*.whl)
sdist=${dist}/$(basename "${sdist}")
rm -rf "${work}/wheel"
"${python}" -m zipfile -e "${wheel}" "${work}/wheel"

exports_only_its_entry() {
  [[ $(nm -D --defined-only "${extension}" | cut -d ' ' -f 3) == PyInit__core ]]
}
is_for_any_cpython() { [[ ${wheel} == */ckptdb-*-cp310-abi3-manylinux_*.whl ]]; }
has_types() {
  [[ -f ${work}/wheel/ckptdb/py.typed && -f ${work}/wheel/ckptdb/_core.pyi ]]
}
# A library is renamed to NAME-HASH.so.VERSION.
has_notices() {
  local file name package code=0
  for file in "${work}"/wheel/ckptdb.libs/*; do
    name=$(basename "${file}" | sed -E 's/-[0-9a-f]{8}\.so/.so/')
    package=$(awk -v name="${name}" '$1 == name { print $2 }' "${work}/libraries")
    if [[ -z ${package} || ! -f ${work}/wheel/${licenses}/${package}.txt ]]; then
      echo "${name} has no notice"
      code=1
    fi
  done
  return "${code}"
}
works() { # PYTHON NAME FILE-TO-INSTALL
  "$1" -m venv "${work}/$2" &&
    pip "${work}/$2/bin/python" install --quiet "$3" &&
    (cd "${work}/$2" && bin/python "${root}/python/tests/smoke.py") || return
  # And with arrays, where there is a NumPy for this CPython.
  if pip "${work}/$2/bin/python" install --quiet --only-binary :all: numpy; then
    (cd "${work}/$2" && bin/python "${root}/python/tests/smoke.py" arrays)
  fi
}

check "the wheel is one for CPython 3.10 and later" is_for_any_cpython
check "the extension exports PyInit__core alone" exports_only_its_entry
check "the package is typed" has_types
check "each bundled library has its notice" has_notices
check "the wheel under $(/usr/bin/python3 --version)" works /usr/bin/python3 wheel \
  "${wheel}"
check "the sources under $(/usr/bin/python3 --version)" works /usr/bin/python3 sdist \
  "${sdist}"
for version in 3.10 3.12 3.13; do
  other=$({ find ~/.pyenv/versions -maxdepth 3 -path "*/${version}.*/bin/python3" \
    2> /dev/null || true; } | sort -V | tail -n 1)
  [[ -n ${other} ]] || other=$(command -v "python${version}" || true)
  if [[ -n ${other} ]]; then
    check "the wheel under CPython ${version}" works "${other}" "wheel-${version}" \
      "${wheel}"
  else
    echo "skipped: there is no CPython ${version}"
  fi
done

ls -l "${dist}"
finish
