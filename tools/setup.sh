#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of a list that are missing, as root or through
# sudo, and makes the virtual environment build/venv, with what the Python package
# is built and tested with, from PyPI. When nothing is missing it changes nothing.
#
#   tools/setup.sh [LIST]
#
# LIST is tools/packages.txt unless it is given; tools/cluster-packages.txt has
# what tools/cluster.sh needs. With a LIST, or with CKPTDB_BUILD_PYTHON=OFF in the
# environment, no virtual environment is made.
#
# Exit code: 0 everything is there, except for the virtual environment where PyPI
# cannot be reached: then all but the Python package is built and tested; 1
# something is missing and could not be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly list=${1:-tools/packages.txt}

fail() {
  echo "setup.sh: $*" >&2
  exit 1
}

[[ -r ${list} ]] || fail "cannot read the list of packages \"${list}\""

command -v dpkg-query > /dev/null ||
  fail "dpkg-query not found: this script needs Debian 12;" \
    "${list} lists what else to install"

is_installed() {
  local status
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$1" \
    2> /dev/null) || return 1
  [[ ${status} == installed ]]
}

missing=()
while read -r package; do
  is_installed "${package}" || missing+=("${package}")
done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "${list}")

install_missing() {
  local as_root
  if [[ ${EUID} -eq 0 ]]; then
    as_root=(env)
  elif command -v sudo > /dev/null && { [[ -t 0 ]] || sudo -n true; } \
    2> /dev/null; then
    as_root=(sudo)
  else
    fail "missing packages: ${missing[*]}" $'\n'"Neither root nor sudo is" \
      "available. Run as root: apt-get install ${missing[*]}"
  fi

  echo "Installing: ${missing[*]}"
  "${as_root[@]}" apt-get update ||
    echo "setup.sh: apt-get update failed; trying the lists at hand" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install all of: ${missing[*]}"
}

# One at a time, as several builds may begin at once. The list is copied last, when
# the environment is complete.
make_venv() {
  local venv=build/venv pins=python/requirements.txt
  mkdir -p build
  exec 9> build/venv.lock
  flock 9
  ! cmp --silent "${pins}" "${venv}/requirements.txt" || return 0
  echo "Making ${venv} from ${pins}"
  rm -rf "${venv}"
  if /usr/bin/python3 -m venv "${venv}" &&
    "${venv}/bin/python" -m pip install --quiet --disable-pip-version-check \
      --retries 1 --timeout 20 --only-binary :all: --require-hashes \
      --requirement "${pins}"; then
    cp "${pins}" "${venv}/requirements.txt"
    return
  fi
  rm -rf "${venv}"
  echo "setup.sh: ${venv} could not be made; skipped: building and testing the" \
    "Python package" >&2
}

[[ ${#missing[@]} -eq 0 ]] || install_missing
if [[ ${list} == tools/packages.txt && ${CKPTDB_BUILD_PYTHON:-} != OFF ]]; then
  make_venv
fi
