#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes what a release consists of, from the commit that is checked out:
#
#   tools/release.sh [FOLDER]      FOLDER: default build/dist
#
#   FOLDER/ckptdb-VERSION.tar.gz              the sources
#   FOLDER/ckptdb_VERSION_ARCHITECTURE.deb    library, headers, command
#   FOLDER/python/                            what PyPI gets, by tools/wheel.sh
#   FOLDER/SHA256SUMS
#
# The package is built from the tarball, with a shared library, then unpacked; the
# command in it must print VERSION, and a program is linked with its pkg-config
# file. Nothing is installed. Uncommitted changes are an error. Without PyPI the
# Python package is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "release.sh: $*" >&2
  exit 1
}

[[ -z $(git status --porcelain) ]] ||
  fail "the working tree has uncommitted changes; commit or stash them first"
version=$(sed -n -E 's/^project\(ckptdb VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
[[ -n ${version} ]] || fail "CMakeLists.txt names no version"

tools/setup.sh
dist=${1:-build/dist}
mkdir -p "${dist}"
dist=$(cd "${dist}" && pwd -P)
tools/wheel.sh "${dist}/python"
# Beside other builds, where ccache knows the paths.
work=$(pwd -P)/build/release-work
rm -rf "${work}"
mkdir -p "${work}/root"
trap 'rm -rf "${work}"' EXIT

name=ckptdb-${version}
git archive --format=tar.gz --prefix="${name}/" -o "${dist}/${name}.tar.gz" HEAD
tar -xzf "${dist}/${name}.tar.gz" -C "${work}"

cmake -S "${work}/${name}" -B "${work}/${name}/build" -G Ninja \
  -D CMAKE_BUILD_TYPE=RelWithDebInfo -D CMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1 -DNDEBUG" \
  -D CMAKE_UNITY_BUILD=ON -D CMAKE_INSTALL_PREFIX=/usr -D BUILD_SHARED_LIBS=ON \
  -D CKPTDB_MPI=OFF -D CKPTDB_CUDA=OFF -D CKPTDB_BUILD_PYTHON=OFF \
  -D CKPTDB_BUILD_TESTS=OFF \
  -D CKPTDB_BUILD_BENCH=OFF -D CKPTDB_BUILD_EXAMPLES=OFF
cmake --build "${work}/${name}/build"
(cd "${work}" && cpack --config "${name}/build/CPackConfig.cmake" -B "${work}/deb")
mv "${work}"/deb/*.deb "${dist}"

# What a user would do with it.
package=$(echo "${dist}"/ckptdb_"${version}"_*.deb)
dpkg-deb --info "${package}"
dpkg-deb --extract "${package}" "${work}/root"
pc_file=$(find "${work}/root" -name ckptdb.pc)
libraries=$(dirname "$(dirname "${pc_file}")")
export LD_LIBRARY_PATH=${libraries} PKG_CONFIG_PATH=${libraries}/pkgconfig
printed=$("${work}/root/usr/bin/ckptdb" --version)
[[ ${printed} == "ckptdb ${version}" ]] ||
  fail "the command of ${package} prints \"${printed}\", not \"ckptdb ${version}\""
# shellcheck disable=SC2046
g++ -std=c++20 tests/install/consumer/consumer.cc -o "${work}/consumer" \
  $(pkg-config --cflags --libs ckptdb)
"${work}/consumer" "${work}/store"

cd "${dist}"
{ printf '%s\n' "${name}.tar.gz" "$(basename "${package}")" && find python -type f |
  sort; } | xargs sha256sum > SHA256SUMS
cat SHA256SUMS
