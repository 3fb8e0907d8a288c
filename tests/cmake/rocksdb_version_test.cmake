# SPDX-License-Identifier: Apache-2.0
# Checks what cmake/ckptdb_rocksdb.cmake of CKPTDB_SOURCE says of versions of
# RocksDB. With VERSION this script is what the check runs in.
cmake_minimum_required(VERSION 3.25)

if(VERSION)
  include(${CKPTDB_SOURCE}/cmake/ckptdb_rocksdb.cmake)
  ckptdb_check_rocksdb(${VERSION})
  return()
endif()

# expect(version mode result regex): the check of a version ends with `result`,
# 0 or 1, and what it says matches.
function(expect version mode result regex)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D CKPTDB_SOURCE=${CKPTDB_SOURCE} -D
            VERSION=${version} -D CKPTDB_OTHER_ROCKSDB=${mode} -P
            ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    RESULT_VARIABLE got
    ERROR_VARIABLE said)
  # CMake breaks the lines of a message where it likes.
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(NOT got EQUAL result OR NOT said MATCHES "${regex}")
    message(SEND_ERROR "RocksDB ${version} with ${mode} ends with ${got}: "
                       "\"${said}\", expected ${result}: \"${regex}\"")
  endif()
endfunction()

set(told "Found RocksDB .*docs/rocksdb.md.*ctest -L rocksdb")
expect(7.8.3 WARN 0 "^$")
expect(7.8.3 ERROR 0 "^$")
expect(7.8.4 WARN 0 "CMake Warning.*${told}")
expect(9.10.0 WARN 0 "CMake Warning.*Found RocksDB 9.10.0; .*docs/rocksdb.md")
expect(9.10.0 ERROR 1 "CMake Error.*${told}")
expect(9.10.0 IGNORE 0 "^$")
expect(7.8.3 MAYBE 1 "CKPTDB_OTHER_ROCKSDB is \"MAYBE\"; expected WARN")

# The page that the message sends to.
if(NOT EXISTS ${CKPTDB_SOURCE}/docs/rocksdb.md)
  message(SEND_ERROR "docs/rocksdb.md is missing")
endif()
