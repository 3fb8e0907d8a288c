# SPDX-License-Identifier: Apache-2.0
# cpack -G DEB: one package of the library, its headers and the command. Its
# dependencies are those of the programs (dpkg-shlibdeps) and of the headers.
set(CPACK_PACKAGE_NAME ckptdb)
set(CPACK_PACKAGE_CONTACT "The ckptdb maintainers")
set(CPACK_PACKAGE_VENDOR "ckptdb")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS
    "libabsl-dev, librocksdb-dev, liblz4-dev, libxxhash-dev")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
include(CPack)
