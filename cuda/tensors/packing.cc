// SPDX-License-Identifier: Apache-2.0
#include "cuda/tensors/packing.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ckptdb::internal {
namespace {

constexpr uint64_t kAlignment = TensorState::Device::kAlignment;

uint64_t AlignPacked(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void AppendPieces(const TensorPlace& place, uint64_t first, uint64_t bytes,
                  uint64_t packed, std::vector<TensorPiece>* pieces) {
  for (uint64_t at = 0; at < bytes; at += kMaxPieceBytes) {
    pieces->push_back({place.data, first + at,
                       std::min(kMaxPieceBytes, bytes - at), packed + at,
                       place.row_bytes, place.stride_bytes});
  }
}

void Packing::Add(const TensorState::Device::Item& item, uint64_t first,
                  uint64_t bytes, uint64_t at) {
  const size_t before = pieces_.size();
  AppendPieces(TensorPlace::Of(*item.state, item.bytes), first, bytes, bytes_,
               &pieces_);
  for (size_t p = before; p < pieces_.size(); ++p) {
    places_.push_back({at + pieces_[p].packed - bytes_, names_.size()});
  }
  names_.emplace_back(item.name);
  bytes_ += AlignPacked(bytes);
}

uint64_t Packing::DeviceBytesOf(uint64_t bytes) {
  const uint64_t pieces = (bytes + kMaxPieceBytes - 1) / kMaxPieceBytes;
  return AlignPacked(bytes) + pieces * (sizeof(TensorPiece) + sizeof(uint64_t));
}

std::string Packing::Describe(size_t piece) const {
  const TensorPiece& of = pieces_[piece];
  return absl::StrCat("tensor \"",
                      absl::Utf8SafeCHexEscape(names_[places_[piece].name]),
                      "\": bytes ", of.first, " to ", of.first + of.bytes);
}

std::vector<Packing::Chunk> Packing::Cut(uint64_t most_bytes) const {
  std::vector<Chunk> chunks;
  for (size_t p = 0; p < pieces_.size(); ++p) {
    const TensorPiece& piece = pieces_[p];
    const uint64_t at = places_[p].at;
    const uint64_t end = piece.packed + AlignPacked(piece.bytes);
    const bool goes_on =
        !chunks.empty() &&
        at - chunks.back().at == piece.packed - chunks.back().packed &&
        end - chunks.back().packed <= most_bytes;
    if (!goes_on) chunks.push_back({piece.packed, 0, at});
    chunks.back().bytes = end - chunks.back().packed;
  }
  return chunks;
}

}  // namespace ckptdb::internal
