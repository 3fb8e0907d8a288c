# SPDX-License-Identifier: Apache-2.0
# The library's dependencies.
target_link_libraries(
  ckptdb
  PUBLIC absl::status absl::statusor absl::strings absl::span
  PRIVATE $<BUILD_INTERFACE:ckptdb_compile> absl::flat_hash_map RocksDB::rocksdb-shared
          PkgConfig::LZ4 PkgConfig::XXHASH Threads::Threads)
target_include_directories(
  ckptdb PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(ckptdb PUBLIC cxx_std_20)

if(CKPTDB_COVERAGE)
  target_compile_options(ckptdb PRIVATE --coverage)
  target_link_options(ckptdb PUBLIC --coverage)
endif()
# A shared library consists of the same objects as a static one.
set_target_properties(ckptdb PROPERTIES DEFINE_SYMBOL "")
