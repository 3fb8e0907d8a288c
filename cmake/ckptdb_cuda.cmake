# SPDX-License-Identifier: Apache-2.0
# Decides whether ckptdb::cuda is built: if nvcc is found, always, or never.
#
# The C++ sources are compiled by the same compiler as all others, so that they
# get its warnings and sanitizers and can be tested with a stand-in for the CUDA
# runtime. Only cuda/kernels/*.cu are compiled by nvcc.
set(CKPTDB_CUDA AUTO CACHE STRING "Build the library for tensors and tables in GPU memory")
set_property(CACHE CKPTDB_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT CKPTDB_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "CKPTDB_CUDA is \"${CKPTDB_CUDA}\"; expected AUTO, ON or OFF")
endif()
set(CKPTDB_HAS_CUDA FALSE)
if(CKPTDB_CUDA STREQUAL "OFF")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(CKPTDB_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CKPTDB_CUDA is ON, but nvcc was not found; add it to PATH "
                        "or set CMAKE_CUDA_COMPILER")
  endif()
  message(STATUS "nvcc was not found, so ckptdb::cuda is not built")
  return()
endif()

# Machine code for data-center GPUs since 2020, and PTX for later ones.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
if(CKPTDB_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CKPTDB_LAUNCHER})
endif()
enable_language(CUDA)
# CMake 3.25 does not know nvcc's C++20 option.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit REQUIRED)
set(CKPTDB_HAS_CUDA TRUE)
