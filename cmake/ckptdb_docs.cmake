# SPDX-License-Identifier: Apache-2.0
# cmake --build build/release --target docs: the reference of the public headers in
# build/release/docs/html, by doxygen, which nothing else needs. Warnings are errors.
find_program(CKPTDB_DOXYGEN doxygen)
if(NOT CKPTDB_DOXYGEN)
  return()
endif()

set(headers ${CKPTDB_PUBLIC_HEADERS} manager/ckptdb.h ${CKPTDB_MPI_HEADERS}
            ${CKPTDB_REMOTE_HEADERS} ${CKPTDB_CUDA_HEADERS})
list(FILTER headers EXCLUDE REGEX "(^|/)internal/")
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
list(APPEND headers ${PROJECT_BINARY_DIR}/include/ckptdb/version.h)
list(TRANSFORM headers REPLACE "(.+)" "\"\\1\"")
list(JOIN headers " " CKPTDB_DOCS_INPUT)
set(CKPTDB_DOCS_FOLDER ${PROJECT_BINARY_DIR}/docs)
configure_file(${PROJECT_SOURCE_DIR}/cmake/Doxyfile.in
               ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
file(MAKE_DIRECTORY ${CKPTDB_DOCS_FOLDER})
add_custom_target(
  docs
  COMMAND ${CKPTDB_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
  COMMENT "The reference of the public headers: ${CKPTDB_DOCS_FOLDER}/html"
  VERBATIM)
