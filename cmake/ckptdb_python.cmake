# SPDX-License-Identifier: Apache-2.0
# Decides whether the Python package is built: if nanobind is found, always, or
# never. The interpreter is Python_EXECUTABLE; where that is not set, the one of
# the virtual environment that tools/setup.sh makes, or else the system's.
set(ckptdb_python_default AUTO)
# An interpreter without a sanitizer does not load an extension with one.
if(NOT PROJECT_IS_TOP_LEVEL OR CKPTDB_SANITIZE OR CKPTDB_COVERAGE)
  set(ckptdb_python_default OFF)
endif()
set(CKPTDB_BUILD_PYTHON ${ckptdb_python_default} CACHE STRING "Build the Python package")
set_property(CACHE CKPTDB_BUILD_PYTHON PROPERTY STRINGS AUTO ON OFF)
if(NOT CKPTDB_BUILD_PYTHON MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "CKPTDB_BUILD_PYTHON is \"${CKPTDB_BUILD_PYTHON}\"; "
                      "expected AUTO, ON or OFF")
endif()

set(CKPTDB_HAS_PYTHON FALSE)
if(NOT CKPTDB_BUILD_PYTHON STREQUAL "OFF")
  set(ckptdb_python_venv ${PROJECT_SOURCE_DIR}/build/venv/bin/python)
  if(NOT Python_EXECUTABLE AND EXISTS ${ckptdb_python_venv})
    set(Python_EXECUTABLE ${ckptdb_python_venv})
  endif()
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    # The stubs and the tests need nanobind's runtime, a package of its own.
    execute_process(
      COMMAND ${Python_EXECUTABLE} -c
              "import nanobind, nanobind_backend; print(nanobind.cmake_dir())"
      OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(nanobind_ROOT)
      find_package(nanobind 3.1 CONFIG QUIET)
    endif()
  endif()
  if(nanobind_FOUND)
    set(CKPTDB_HAS_PYTHON TRUE)
  else()
    set(ckptdb_python_level STATUS)
    if(CKPTDB_BUILD_PYTHON STREQUAL "ON")
      set(ckptdb_python_level FATAL_ERROR)
    endif()
    message(${ckptdb_python_level}
            "Python 3.10 with headers, nanobind 3.1 and nanobind-backend were not "
            "found, so the Python package is not built; tools/setup.sh installs them")
  endif()
endif()
