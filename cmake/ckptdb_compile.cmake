# SPDX-License-Identifier: Apache-2.0
# Compiler settings for everything built here; users of the package do not
# inherit them.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16) # where CMAKE_UNITY_BUILD is set
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

option(CKPTDB_COVERAGE "Count how often each line of the library runs" OFF)

# ccache finds what was compiled in another clone: no path of this one is in the
# key, nor in the object. gcov needs the paths.
find_program(CKPTDB_CCACHE ccache)
if(CKPTDB_COVERAGE)
  set(CKPTDB_LAUNCHER ${CKPTDB_CCACHE})
else()
  set(CKPTDB_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
                      CCACHE_NOHASHDIR=1 ${CKPTDB_CCACHE})
  add_compile_options(
    $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
endif()
if(CKPTDB_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CKPTDB_LAUNCHER})
endif()

# Sources include each other by their path in the tree, "db/store.h".
add_library(ckptdb_compile INTERFACE)
target_include_directories(
  ckptdb_compile INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include)
# nvcc has its own warnings, and does not pass on those of its host compiler.
target_compile_options(
  ckptdb_compile
  INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Werror>"
)
# GCC treats a source that is compiled in a unity build as a header. GCC 12 also
# warns that a string overlaps the literal assigned to it
# (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105329).
target_compile_options(
  ckptdb_compile INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage;-Wno-restrict>)

set(CKPTDB_SANITIZE "" CACHE STRING
    "Sanitizers, as for -fsanitize (address,undefined or thread)")
if(CKPTDB_SANITIZE)
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CKPTDB_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>"
  )
  if(CKPTDB_SANITIZE MATCHES "undefined")
    # These two checks take a tenth of the compile time. The address sanitizer
    # reports null pointers anyway, and downcasts are few.
    add_compile_options(
      "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,vptr>")
  endif()
  add_link_options(-fsanitize=${CKPTDB_SANITIZE})
endif()
