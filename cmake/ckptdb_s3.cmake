# SPDX-License-Identifier: Apache-2.0
# Decides whether s3:// is built: CKPTDB_HAS_S3. Its signatures need libcurl
# 7.88, which signs all headers.
find_package(CURL 7.88 QUIET)
find_package(pugixml CONFIG QUIET)
set(CKPTDB_HAS_S3 FALSE)
if(CURL_FOUND AND pugixml_FOUND)
  set(CKPTDB_HAS_S3 TRUE)
else()
  message(STATUS "libcurl 7.88 or pugixml was not found, so s3:// is not built; on "
                 "Debian, install libcurl4-openssl-dev and libpugixml-dev")
endif()
