#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of a list that are missing, as root or through
# sudo. When nothing is missing it changes nothing.
#
#   tools/setup.sh [LIST]
#
# LIST is tools/packages.txt unless it is given; tools/cluster-packages.txt has
# what tools/cluster.sh needs.
#
# Exit code: 0 everything is there, 1 something is missing and could not be
# installed.
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
[[ ${#missing[@]} -gt 0 ]] || exit 0

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
