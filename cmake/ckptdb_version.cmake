# SPDX-License-Identifier: Apache-2.0
# The version is that of the project: in a header, in the names of shared
# libraries, in the package. Before 1.0 a minor version may change the ABI.
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in
               ${PROJECT_BINARY_DIR}/include/ckptdb/version.h @ONLY)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(CKPTDB_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
else()
  set(CKPTDB_SOVERSION ${PROJECT_VERSION_MAJOR})
endif()
