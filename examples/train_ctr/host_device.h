// SPDX-License-Identifier: Apache-2.0
// Macros for mathematics that runs on the host and in kernels.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_HOST_DEVICE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_HOST_DEVICE_H_

// Marks a function that runs on the host and on a device.
#if defined(__CUDACC__)
#define TRAIN_CTR_HOST_DEVICE __host__ __device__
#else
#define TRAIN_CTR_HOST_DEVICE
#endif

// Asks a compiler of kernels to unroll the loop that follows, so that small
// arrays stay in registers. Compilers for the host unroll it anyway.
#if defined(__CUDA_ARCH__)
#define TRAIN_CTR_UNROLL _Pragma("unroll")
#else
#define TRAIN_CTR_UNROLL
#endif

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_HOST_DEVICE_H_
