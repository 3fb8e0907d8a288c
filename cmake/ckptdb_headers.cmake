# SPDX-License-Identifier: Apache-2.0
# The public headers as users include them: <ckptdb/db/store.h>.
#
# They lie in the tree as db/store.h, and include each other so. Copies that say
# "ckptdb/db/store.h" are in the build folder, for what is built there as a user
# would build it, and are what is installed.

# Earlier versions made links to the tree here, through which the copies would be
# written into it.
file(GLOB links ${PROJECT_BINARY_DIR}/include/ckptdb/*)
foreach(link IN LISTS links)
  if(IS_SYMLINK ${link})
    file(REMOVE ${link})
  endif()
endforeach()

# ckptdb_public_header(FILE PATH): FILE of the tree is <ckptdb/PATH>.
function(ckptdb_public_header file path)
  set(source ${PROJECT_SOURCE_DIR}/${file})
  file(READ ${source} text)
  string(REGEX REPLACE "#include \"(cuda|db|manager|mpi|remote|schema)/"
                       "#include \"ckptdb/\\1/" text "${text}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/ckptdb/${path}
       CONTENT "${text}" @ONLY)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND
               PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  cmake_path(GET path PARENT_PATH folder)
  install(FILES ${PROJECT_BINARY_DIR}/include/ckptdb/${path}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ckptdb/${folder})
endfunction()

# ckptdb_public_headers(FILE...): each is <ckptdb/FILE>.
function(ckptdb_public_headers)
  foreach(file IN LISTS ARGN)
    ckptdb_public_header(${file} ${file})
  endforeach()
endfunction()
