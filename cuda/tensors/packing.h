// SPDX-License-Identifier: Apache-2.0
// Cuts tensors into pieces, packs them, and cuts the packed buffer into copies;
// internal to cuda/.
#ifndef CKPTDB_CUDA_TENSORS_PACKING_H_
#define CKPTDB_CUDA_TENSORS_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/piece.h"
#include "cuda/tensors/tensor_place.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"

namespace ckptdb::internal {

// Cuts the bytes [first, first + bytes) of a tensor into pieces, which are
// placed in a packed buffer from `packed` on.
void AppendPieces(const TensorPlace& place, uint64_t first, uint64_t bytes,
                  uint64_t packed, std::vector<TensorPiece>* pieces);

// The layout of tensors in a packed buffer, and their places in host memory.
class Packing {
 public:
  // A copy to the host: pieces that are adjacent on both sides.
  struct Chunk {
    uint64_t packed = 0;
    uint64_t bytes = 0;
    uint64_t at = 0;  // in host memory
  };

  // Adds a range of a tensor, whose place in host memory is `at`.
  void Add(const TensorState::Device::Item& item, uint64_t first,
           uint64_t bytes, uint64_t at);

  // Returns the most device memory that adding `bytes` of a tensor takes.
  static uint64_t DeviceBytesOf(uint64_t bytes);

  bool empty() const { return pieces_.empty(); }
  // The bytes of the packed buffer.
  uint64_t bytes() const { return bytes_; }
  const std::vector<TensorPiece>& pieces() const { return pieces_; }
  // The place of a piece in host memory.
  uint64_t AtOf(size_t piece) const { return places_[piece].at; }
  // Returns the piece's tensor and byte range, for errors.
  std::string Describe(size_t piece) const;
  // Cuts the packed buffer into chunks of at most `most_bytes`, which is at
  // least kMaxPieceBytes.
  std::vector<Chunk> Cut(uint64_t most_bytes) const;

 private:
  struct Place {
    uint64_t at = 0;
    size_t name = 0;
  };

  uint64_t bytes_ = 0;
  std::vector<TensorPiece> pieces_;
  std::vector<Place> places_;  // of the pieces
  std::vector<std::string> names_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_CUDA_TENSORS_PACKING_H_
