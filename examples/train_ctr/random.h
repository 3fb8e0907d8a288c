// SPDX-License-Identifier: Apache-2.0
// Deterministic random numbers: a mixing function of integers and a small
// generator whose whole state is one integer, so that it can be saved.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_RANDOM_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_RANDOM_H_

#include <cstdint>

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

namespace train_ctr {

// The finalizer of SplitMix64: a bijection of uint64.
TRAIN_CTR_HOST_DEVICE inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Depends on the order of its arguments.
TRAIN_CTR_HOST_DEVICE inline uint64_t Mix(uint64_t a, uint64_t b) {
  return Mix(Mix(a + 0x9e3779b97f4a7c15u) ^ b);
}

// Returns a number in [0, 1), from the upper 53 bits.
TRAIN_CTR_HOST_DEVICE inline double ToUnit(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// SplitMix64. Any state is valid.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Returns the `n`th number, from 0, of a generator with this seed.
  TRAIN_CTR_HOST_DEVICE static uint64_t At(uint64_t seed, uint64_t n) {
    return Mix(seed + (n + 1) * kStep);
  }

  uint64_t Next() { return Mix(state_ += kStep); }
  double NextUnit() { return ToUnit(Next()); }
  // Returns a number in [0, bound), for bound > 0.
  uint64_t NextBelow(uint64_t bound) {
    return static_cast<uint64_t>(NextUnit() * static_cast<double>(bound));
  }

  uint64_t state() const { return state_; }
  void set_state(uint64_t state) { state_ = state; }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;

  uint64_t state_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_RANDOM_H_
