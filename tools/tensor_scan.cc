// SPDX-License-Identifier: Apache-2.0
#include "tools/tensor_scan.h"

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include "schema/status.h"

namespace ckptdb::tool {
namespace {

constexpr uint64_t kScanBytes = uint64_t{32} << 20;

// Splits a box of more than one element, and pushes the first half last, so
// that it is popped first.
void PushHalvesOf(const TensorBox& box, std::vector<TensorBox>* boxes) {
  const auto first = std::find_if(box.shape.begin(), box.shape.end(),
                                  [](int64_t extent) { return extent > 1; });
  const auto dimension = static_cast<size_t>(first - box.shape.begin());
  const int64_t half = *first / 2;
  TensorBox upper = box;
  upper.offset[dimension] += half;
  upper.shape[dimension] -= half;
  boxes->push_back(std::move(upper));
  boxes->push_back(box);
  boxes->back().shape[dimension] = half;
}

struct TensorPiece {
  size_t part = 0;
  TensorBox box;
  uint64_t bytes = 0;
};
// Pieces that are read by one call into one buffer: a part of a tensor, or
// small whole tensors.
struct TensorPieceGroup {
  std::vector<TensorPiece> pieces;
  uint64_t bytes = 0;
  bool whole = false;
};

std::vector<TensorPieceGroup> GroupPieces(absl::Span<const TensorPart> parts) {
  std::vector<TensorPieceGroup> groups;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [spec, box] = parts[i];
    const uint64_t bytes = BytesOf(box, spec.dtype);
    if (box.shape != spec.shape || bytes > kScanBytes) {
      for (TensorBox& piece : DivideBox(box, spec.dtype, kScanBytes)) {
        const uint64_t piece_bytes = BytesOf(piece, spec.dtype);
        groups.push_back({{{i, std::move(piece), piece_bytes}}, piece_bytes});
      }
      continue;
    }
    if (groups.empty() || !groups.back().whole ||
        groups.back().bytes + bytes > kScanBytes) {
      groups.push_back({{}, 0, true});
    }
    groups.back().pieces.push_back({i, box, bytes});
    groups.back().bytes += bytes;
  }
  return groups;
}

absl::Status ReadGroup(const StepReader& step,
                       absl::Span<const TensorPart> parts,
                       const TensorPieceGroup& group,
                       const ReadOptions& options, std::string* out) {
  // At least one byte, so that its address is not null.
  out->resize(std::max<uint64_t>(group.bytes, 1));
  if (!group.whole) {
    const TensorPiece& piece = group.pieces[0];
    return step.ReadTensorPart(parts[piece.part].spec.name, piece.box.offset,
                               piece.box.shape, out->data(), piece.bytes,
                               options);
  }
  std::vector<StepReader::TensorRead> reads;
  char* at = out->data();
  for (const TensorPiece& piece : group.pieces) {
    reads.push_back({parts[piece.part].spec.name, at, piece.bytes});
    at += piece.bytes;
  }
  return step.ReadTensors(reads, options);
}

}  // namespace

TensorBox WholeOf(const Item& tensor) {
  return {Shape(tensor.shape.size(), 0), tensor.shape};
}

uint64_t BytesOf(const TensorBox& box, DType dtype) {
  uint64_t bytes = DTypeBytes(dtype);
  for (const int64_t extent : box.shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

std::vector<TensorBox> DivideBox(const TensorBox& box, DType dtype,
                                 uint64_t max_bytes) {
  std::vector<TensorBox> divided;
  std::vector<TensorBox> boxes = {box};
  while (!boxes.empty()) {
    TensorBox next = std::move(boxes.back());
    boxes.pop_back();
    const uint64_t bytes = BytesOf(next, dtype);
    if (bytes <= max_bytes || bytes == DTypeBytes(dtype)) {
      divided.push_back(std::move(next));
    } else {
      PushHalvesOf(next, &boxes);
    }
  }
  return divided;
}

absl::Status ScanTensors(const StepReader& step,
                         absl::Span<const TensorPart> parts,
                         const ReadOptions& options, TakePiece take) {
  const std::vector<TensorPieceGroup> groups = GroupPieces(parts);
  uint64_t all_bytes = 0;
  for (const TensorPieceGroup& group : groups) all_bytes += group.bytes;
  ReadOptions read = options;
  read.progress = {};
  uint64_t done_bytes = 0;
  std::string bytes;
  std::string next_bytes;
  // Destroyed first, so that a read ends before its memory does.
  std::future<absl::Status> next;
  const auto start = [&](size_t i) {
    if (i == groups.size()) return;
    next = std::async(std::launch::async, [&, i] {
      return ReadGroup(step, parts, groups[i], read, &next_bytes);
    });
  };
  start(0);
  for (size_t i = 0; i < groups.size(); ++i) {
    CKPTDB_RETURN_IF_ERROR(next.get());
    bytes.swap(next_bytes);
    start(i + 1);
    const char* at = bytes.data();
    for (const TensorPiece& piece : groups[i].pieces) {
      CKPTDB_RETURN_IF_ERROR(take(piece.part, at, piece.bytes));
      at += piece.bytes;
    }
    done_bytes += groups[i].bytes;
    if (options.progress) options.progress(done_bytes, all_bytes);
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::tool
