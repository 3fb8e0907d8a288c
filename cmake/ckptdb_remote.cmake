# SPDX-License-Identifier: Apache-2.0
# Decides whether ckptdb::remote has the client of s3://: if its libraries are
# found, always, or never. Folders (file://) need none.
set(CKPTDB_REMOTE AUTO CACHE STRING "Build the client of s3://")
set_property(CACHE CKPTDB_REMOTE PROPERTY STRINGS AUTO ON OFF)
if(NOT CKPTDB_REMOTE MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "CKPTDB_REMOTE is \"${CKPTDB_REMOTE}\"; expected AUTO, ON or OFF")
endif()
set(CKPTDB_HAS_S3 FALSE)
if(NOT CKPTDB_REMOTE STREQUAL "OFF")
  # Looks for the libraries, and sets CKPTDB_HAS_S3.
  include(ckptdb_s3 OPTIONAL)
endif()
if(CKPTDB_REMOTE STREQUAL "ON" AND NOT CKPTDB_HAS_S3)
  message(FATAL_ERROR "CKPTDB_REMOTE is ON, but what s3:// needs was not found")
endif()
