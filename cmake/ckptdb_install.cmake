# SPDX-License-Identifier: Apache-2.0
# The installed package: find_package(ckptdb), target ckptdb::ckptdb, headers
# as <ckptdb/db/store.h>, and the command where it is built.
include(CMakePackageConfigHelpers)
include(ckptdb_headers)

# The headers a user may include. Each includes only others of this list;
# tests/install compiles all of them.
set(CKPTDB_PUBLIC_HEADERS
    db/backup.h
    db/options.h
    db/reader.h
    db/row_tracker.h
    db/state.h
    db/store.h
    manager/checkpoint_manager.h
    manager/coordinator.h
    manager/evaluation_state.h
    manager/load_rule.h
    manager/manager_options.h
    manager/map_table.h
    manager/model_state.h
    manager/policies.h
    manager/results.h
    manager/tables.h
    schema/status.h
    schema/types.h)

# Headers that the public ones include, for templates and for ckptdb::cuda. Not
# for users.
set(CKPTDB_INTERNAL_HEADERS
    db/internal/crash_points.h
    db/internal/dtype_of.h
    manager/internal/adapted_table.h
    manager/internal/map_rows.h
    manager/internal/step_shipping.h
    manager/internal/tensor_device.h)

ckptdb_public_headers(${CKPTDB_PUBLIC_HEADERS} ${CKPTDB_INTERNAL_HEADERS})
# The header that includes all others stands above them.
ckptdb_public_header(manager/ckptdb.h ckptdb.h)
install(FILES ${PROJECT_BINARY_DIR}/include/ckptdb/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ckptdb)

set_target_properties(ckptdb PROPERTIES VERSION ${PROJECT_VERSION}
                                        SOVERSION ${CKPTDB_SOVERSION})
install(TARGETS ckptdb EXPORT ckptdb_targets)
if(TARGET ckptdb_tool)
  # Finds a shared library where the package put it.
  set_target_properties(ckptdb_tool PROPERTIES
                        INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBDIR})
  install(TARGETS ckptdb_tool)
endif()

# The coordinator over MPI is found by find_package(ckptdb COMPONENTS mpi).
set(CKPTDB_MPI_HEADERS mpi/mpi_coordinator.h)
set(CKPTDB_HAS_MPI FALSE)
if(TARGET ckptdb_mpi)
  set(CKPTDB_HAS_MPI TRUE)
  set_target_properties(
    ckptdb_mpi PROPERTIES EXPORT_NAME mpi VERSION ${PROJECT_VERSION}
                          SOVERSION ${CKPTDB_SOVERSION})
  install(TARGETS ckptdb_mpi EXPORT ckptdb_mpi_targets)
  ckptdb_public_headers(${CKPTDB_MPI_HEADERS})
  install(EXPORT ckptdb_mpi_targets
          FILE ckptdbMpiTargets.cmake
          NAMESPACE ckptdb::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ckptdb)
endif()

# Stores in object stores are found by find_package(ckptdb COMPONENTS remote).
set(CKPTDB_REMOTE_HEADERS remote/check_remote.h remote/follow_remote.h
                          remote/object_store.h remote/remote_store.h
                          remote/step_shipper.h remote/urls.h)
set_target_properties(
  ckptdb_remote PROPERTIES EXPORT_NAME remote VERSION ${PROJECT_VERSION}
                           SOVERSION ${CKPTDB_SOVERSION})
install(TARGETS ckptdb_remote EXPORT ckptdb_remote_targets)
ckptdb_public_headers(${CKPTDB_REMOTE_HEADERS})
install(EXPORT ckptdb_remote_targets
        FILE ckptdbRemoteTargets.cmake
        NAMESPACE ckptdb::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ckptdb)

# The library for GPU memory is found by find_package(ckptdb COMPONENTS cuda).
set(CKPTDB_CUDA_HEADERS cuda/cuda_device.h cuda/device_table.h cuda/hash_table.h)
if(CKPTDB_HAS_CUDA)
  # A build with sanitizers has no such library, but compiles the examples' use of
  # it over the stand-in for the runtime.
  ckptdb_public_headers(${CKPTDB_CUDA_HEADERS})
endif()
if(TARGET ckptdb_cuda)
  set(CKPTDB_INSTALLS_CUDA TRUE)
  set_target_properties(
    ckptdb_cuda PROPERTIES EXPORT_NAME cuda VERSION ${PROJECT_VERSION}
                           SOVERSION ${CKPTDB_SOVERSION})
  install(TARGETS ckptdb_cuda EXPORT ckptdb_cuda_targets)
  install(EXPORT ckptdb_cuda_targets
          FILE ckptdbCudaTargets.cmake
          NAMESPACE ckptdb::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ckptdb)
else()
  set(CKPTDB_INSTALLS_CUDA FALSE)
endif()

set(CKPTDB_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/ckptdb)
install(EXPORT ckptdb_targets
        FILE ckptdbTargets.cmake
        NAMESPACE ckptdb::
        DESTINATION ${CKPTDB_INSTALL_CMAKEDIR})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ckptdbConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ckptdbConfig.cmake
  INSTALL_DESTINATION ${CKPTDB_INSTALL_CMAKEDIR}
  NO_SET_AND_CHECK_MACRO)
# Before version 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ckptdbConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ckptdbConfig.cmake
              ${PROJECT_BINARY_DIR}/ckptdbConfigVersion.cmake
        DESTINATION ${CKPTDB_INSTALL_CMAKEDIR})
include(ckptdb_pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
