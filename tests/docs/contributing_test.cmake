# SPDX-License-Identifier: Apache-2.0
# Checks that each file and folder that CONTRIBUTING.md of CKPTDB_SOURCE names in
# backticks is there.
cmake_minimum_required(VERSION 3.25)

file(READ ${CKPTDB_SOURCE}/CONTRIBUTING.md text)
string(REGEX MATCHALL "`\\.?[a-z_]+/[a-z_/.]*[a-z_/]`" named "${text}")
list(LENGTH named count)
if(count LESS 30)
  message(FATAL_ERROR "CONTRIBUTING.md names only ${count} files")
endif()
foreach(path IN LISTS named)
  string(REPLACE "`" "" path "${path}")
  if(NOT EXISTS ${CKPTDB_SOURCE}/${path})
    message(SEND_ERROR "CONTRIBUTING.md names ${path}, which is not there")
  endif()
endforeach()
