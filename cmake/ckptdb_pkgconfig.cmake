# SPDX-License-Identifier: Apache-2.0
# pkg-config --cflags --libs ckptdb, for builds without CMake; a user gives
# -std=c++20. A static library is linked with all that it uses; a shared one with
# what its headers use.
set(CKPTDB_PC_REQUIRES "absl_status absl_statusor absl_strings absl_span absl_time")
set(CKPTDB_PC_REQUIRES_PRIVATE
    "absl_flat_hash_map absl_synchronization rocksdb >= 7 liblz4 libxxhash")
set(CKPTDB_PC_LIBS "")
set(CKPTDB_PC_LIBS_PRIVATE -pthread)
get_target_property(type ckptdb TYPE)
if(type STREQUAL "STATIC_LIBRARY")
  string(APPEND CKPTDB_PC_REQUIRES " ${CKPTDB_PC_REQUIRES_PRIVATE}")
  set(CKPTDB_PC_REQUIRES_PRIVATE "")
  set(CKPTDB_PC_LIBS ${CKPTDB_PC_LIBS_PRIVATE})
  set(CKPTDB_PC_LIBS_PRIVATE "")
endif()

# The prefix as seen from the file, so that the package can be moved.
set(CKPTDB_PC_FOLDER ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CKPTDB_PC_FOLDER}
           OUTPUT_VARIABLE CKPTDB_PC_PREFIX)
configure_file(${PROJECT_SOURCE_DIR}/cmake/ckptdb.pc.in
               ${PROJECT_BINARY_DIR}/ckptdb.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ckptdb.pc DESTINATION ${CKPTDB_PC_FOLDER})
