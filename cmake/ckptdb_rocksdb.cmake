# SPDX-License-Identifier: Apache-2.0
# Compares RocksDB's version with the tested one, because the library depends on
# internals that no release guarantees: docs/rocksdb.md lists them.
set(CKPTDB_OTHER_ROCKSDB WARN
    CACHE STRING "Response to a RocksDB version other than 7.8.3")
set_property(CACHE CKPTDB_OTHER_ROCKSDB PROPERTY STRINGS WARN ERROR IGNORE)

# ckptdb_check_rocksdb(version): reports a version other than the tested one.
function(ckptdb_check_rocksdb version)
  set(tested 7.8.3)
  set(mode_of_WARN WARNING)
  set(mode_of_ERROR FATAL_ERROR)
  set(mode_of_IGNORE DEBUG)
  set(mode ${mode_of_${CKPTDB_OTHER_ROCKSDB}})
  if(NOT mode)
    message(FATAL_ERROR "CKPTDB_OTHER_ROCKSDB is \"${CKPTDB_OTHER_ROCKSDB}\"; "
                        "expected WARN, ERROR or IGNORE")
  endif()
  if(version VERSION_EQUAL tested)
    return()
  endif()
  message(
    ${mode}
    "Found RocksDB ${version}; ckptdb is tested with RocksDB ${tested} and "
    "depends on internals of that version: docs/rocksdb.md lists them with "
    "their tests. Run these tests before you use the build: ctest -L rocksdb. "
    "CKPTDB_OTHER_ROCKSDB=ERROR rejects other versions, IGNORE is silent.")
endfunction()
