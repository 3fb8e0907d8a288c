# SPDX-License-Identifier: Apache-2.0
# The dependencies, from Debian's packages; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(FlatBuffers CONFIG REQUIRED)
find_package(RocksDB CONFIG REQUIRED)
include(ckptdb_rocksdb)
ckptdb_check_rocksdb(${RocksDB_VERSION})
find_package(nlohmann_json CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_program(CKPTDB_FLATC flatc REQUIRED)
