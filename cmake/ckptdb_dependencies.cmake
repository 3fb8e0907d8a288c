# Debian's packages, found where they are; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(FlatBuffers CONFIG REQUIRED)
find_package(RocksDB CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_program(CKPTDB_FLATC flatc REQUIRED)
