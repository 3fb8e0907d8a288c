# SPDX-License-Identifier: Apache-2.0
# Decides whether ckptdb::mpi is built: if MPI is found, always, or never.
set(CKPTDB_MPI AUTO CACHE STRING "Build the coordinator over MPI")
set_property(CACHE CKPTDB_MPI PROPERTY STRINGS AUTO ON OFF)
if(NOT CKPTDB_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "CKPTDB_MPI is \"${CKPTDB_MPI}\"; expected AUTO, ON or OFF")
endif()
if(CKPTDB_MPI STREQUAL "ON")
  find_package(MPI REQUIRED COMPONENTS CXX)
elseif(CKPTDB_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS CXX)
endif()
if(NOT CKPTDB_MPI STREQUAL "OFF" AND NOT MPI_CXX_FOUND)
  message(STATUS "MPI was not found, so ckptdb::mpi is not built; on Debian, "
                 "install libopenmpi-dev and openmpi-bin")
endif()
