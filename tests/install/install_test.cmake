# SPDX-License-Identifier: Apache-2.0
# Installs the build CKPTDB_BUILD under CKPTDB_WORK, then configures, builds
# and runs CKPTDB_CONSUMER against it. Builds nothing in CKPTDB_BUILD.
function(run)
  message(STATUS "Running: ${ARGN}")
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(prefix ${CKPTDB_WORK}/prefix)
set(build ${CKPTDB_WORK}/build)
set(flags "")
if(CKPTDB_SANITIZE)
  set(flags -fsanitize=${CKPTDB_SANITIZE})
endif()

file(REMOVE_RECURSE ${CKPTDB_WORK})
run(${CMAKE_COMMAND} --install ${CKPTDB_BUILD} --prefix ${prefix})
run(${CMAKE_COMMAND}
    -S ${CKPTDB_CONSUMER} -B ${build} -G ${CKPTDB_GENERATOR}
    -D CMAKE_PREFIX_PATH=${prefix}
    -D CMAKE_CXX_COMPILER=${CKPTDB_COMPILER}
    -D CMAKE_CXX_COMPILER_LAUNCHER=${CKPTDB_LAUNCHER}
    -D CMAKE_CXX_FLAGS=${flags}
    -D CKPTDB_VERSION=${CKPTDB_VERSION})
run(${CMAKE_COMMAND} --build ${build})
run(${build}/consumer ${CKPTDB_WORK}/store)

# The same program with pkg-config alone, and how the command finds the library.
file(GLOB_RECURSE pc_file ${prefix}/ckptdb.pc)
cmake_path(GET pc_file PARENT_PATH pc_folder)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
execute_process(
  COMMAND ${CKPTDB_PKG_CONFIG} --cflags --libs ckptdb
  OUTPUT_VARIABLE pc_flags
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(pc_flags UNIX_COMMAND "${pc_flags}")
run(${CKPTDB_COMPILER} -std=c++20 ${flags} ${CKPTDB_CONSUMER}/consumer.cc
    -o ${CKPTDB_WORK}/by_pkg_config ${pc_flags} -Wl,-rpath,${pc_folder}/..)
run(${CKPTDB_WORK}/by_pkg_config ${CKPTDB_WORK}/store)
if(EXISTS ${prefix}/bin/ckptdb)
  run(${prefix}/bin/ckptdb --version)
  foreach(file man/man1/ckptdb.1 bash-completion/completions/ckptdb)
    if(NOT EXISTS ${prefix}/share/${file})
      message(FATAL_ERROR "share/${file} is not installed")
    endif()
  endforeach()
endif()

# An older C++ standard is an error that names the required one.
file(WRITE ${CKPTDB_WORK}/older.cc "#include <ckptdb/ckptdb.h>\n")
execute_process(
  COMMAND ${CKPTDB_COMPILER} -std=c++17 -E -I ${prefix}/include
          ${CKPTDB_WORK}/older.cc
  RESULT_VARIABLE code
  OUTPUT_QUIET
  ERROR_VARIABLE text)
if(code EQUAL 0 OR NOT text MATCHES "ckptdb needs C\\+\\+20")
  message(FATAL_ERROR "C++17 is not refused: ${code}, ${text}")
endif()
