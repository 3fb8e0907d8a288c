# Compares the version of RocksDB with the one that docs/rocksdb.md speaks of:
# the library rests on some of its inner workings, which no release promises.
set(CKPTDB_OTHER_ROCKSDB WARN
    CACHE STRING "What another version of RocksDB than 7.8.3 is met with")
set_property(CACHE CKPTDB_OTHER_ROCKSDB PROPERTY STRINGS WARN ERROR IGNORE)

# ckptdb_check_rocksdb(version): says so, unless the version is the tested one.
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
    "Found RocksDB ${version}; ckptdb is tested with RocksDB ${tested}. It rests "
    "on inner workings of that version: docs/rocksdb.md lists them, each with "
    "its tests. Run these before you use the build: ctest -L rocksdb. "
    "CKPTDB_OTHER_ROCKSDB=ERROR refuses other versions, IGNORE says nothing.")
endfunction()
