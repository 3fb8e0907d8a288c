// SPDX-License-Identifier: Apache-2.0
#include "manager/load/load_cast.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "db/base/progress.h"
#include "schema/bytes/cast_in_range.h"
#include "schema/bytes/shape.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The bytes of a tensor that a thread holds in memory before casting them.
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;

// Returns the indices, in the global tensor, of an element of this rank's part.
Shape IndicesOf(uint64_t element, const TensorState& state) {
  Shape indices(state.shape.size());
  for (size_t i = indices.size(); i-- > 0;) {
    const auto extent = static_cast<uint64_t>(state.shape[i]);
    indices[i] = static_cast<int64_t>(element % extent);
    if (state.sharded()) indices[i] += state.offset[i];
    element /= extent;
  }
  return indices;
}

// Reads and casts the pieces of one tensor.
class TensorCast {
 public:
  // The tensor has so many `elements`; `read` outlives this object.
  TensorCast(const StepReader& step, const ReadOptions& read,
             const std::string& name, DType from, const TensorState& state,
             uint64_t elements)
      : step_(step),
        read_(read),
        name_(name),
        from_(from),
        state_(state),
        pieces_(state.shape, kPieceBytes / DTypeBytes(from)),
        progress_("ReadOptions::progress", read.progress) {
    // Pieces are read concurrently, but report one at a time.
    read_.progress = nullptr;
    progress_.AddTotal(elements * DTypeBytes(from));
  }

  absl::Status Run() {
    const int threads = read_.threads;
    buffers_.resize(static_cast<size_t>(threads));
    // Several threads read each piece if there are only a few.
    read_.threads = static_cast<int>(std::max<uint64_t>(
        1, static_cast<uint64_t>(threads) / pieces_.count()));
    return ParallelFor(
        threads, pieces_.count(),
        [&](int worker, uint64_t i) {
          return LoadPiece(i, &buffers_[static_cast<size_t>(worker)]);
        },
        PollOf(read_.cancelled));
  }

 private:
  // Reads a piece into the buffer, and casts it into the tensor. Casts the
  // values before the first that is out of range, so the tensor is partly
  // loaded after an error.
  absl::Status LoadPiece(uint64_t piece, std::string* buffer) {
    uint64_t first = 0;
    Box box = pieces_.At(piece, &first);
    uint64_t elements = 1;
    for (size_t i = 0; i < box.shape.size(); ++i) {
      elements *= static_cast<uint64_t>(box.shape[i]);
      if (state_.sharded()) box.offset[i] += state_.offset[i];
    }
    buffer->resize(pieces_.elements() * DTypeBytes(from_));
    CKPTDB_RETURN_IF_ERROR(
        step_.ReadTensorPart(name_, box.offset, box.shape, buffer->data(),
                             elements * DTypeBytes(from_), read_));
    char* const out =
        static_cast<char*>(state_.data) + first * DTypeBytes(state_.dtype);
    const size_t done =
        CastWhileInRange(from_, buffer->data(), state_.dtype, out, elements);
    if (done == elements) {
      return progress_.Advance(elements * DTypeBytes(from_));
    }
    return absl::OutOfRangeError(absl::StrCat(
        "tensor \"", name_, "\", element ",
        ToString(IndicesOf(first + done, state_)), ": ",
        NotInRange(from_, buffer->data() + done * DTypeBytes(from_),
                   state_.dtype)));
  }

  const StepReader& step_;
  ReadOptions read_;
  const std::string& name_;
  const DType from_;
  const TensorState& state_;
  const TensorPieces pieces_;
  Progress progress_;
  std::vector<std::string> buffers_;  // by worker
};

}  // namespace

// A piece spans as many whole inner dimensions as fit; the next dimension
// outwards is cut, and the piece has a single index in those before it. So it
// is contiguous in memory, and a box of the step's tensor.
TensorPieces::TensorPieces(const Shape& shape, uint64_t most_elements)
    : shape_(shape) {
  if (shape_.empty()) return;
  dimension_ = shape_.size() - 1;
  const auto extent = [&](size_t i) {
    return static_cast<uint64_t>(shape_[i]);
  };
  while (dimension_ > 0 && inner_ * extent(dimension_) <= most_elements) {
    inner_ *= extent(dimension_--);
  }
  cut_ = std::clamp<uint64_t>(most_elements / inner_, 1, extent(dimension_));
  cuts_ = (extent(dimension_) + cut_ - 1) / cut_;
  for (size_t i = 0; i < dimension_; ++i) outer_ *= extent(i);
}

Box TensorPieces::At(uint64_t piece, uint64_t* first) const {
  Box box{Shape(shape_.size(), 0), shape_};
  *first = 0;
  if (shape_.empty()) return box;
  uint64_t row = piece / cuts_;
  const uint64_t begin = piece % cuts_ * cut_;
  const auto extent = static_cast<uint64_t>(shape_[dimension_]);
  *first = (row * extent + begin) * inner_;
  box.offset[dimension_] = static_cast<int64_t>(begin);
  box.shape[dimension_] = static_cast<int64_t>(std::min(cut_, extent - begin));
  for (size_t i = dimension_; i-- > 0;) {
    box.offset[i] =
        static_cast<int64_t>(row % static_cast<uint64_t>(shape_[i]));
    box.shape[i] = 1;
    row /= static_cast<uint64_t>(shape_[i]);
  }
  return box;
}

absl::Status LoadCastTensor(const StepReader& step, const ReadOptions& read,
                            const std::string& name, DType from,
                            const TensorState& state) {
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(state.shape, DTypeBytes(state.dtype)));
  if (elements == 0) return absl::OkStatus();
  return TensorCast(step, read, name, from, state,
                    static_cast<uint64_t>(elements))
      .Run();
}

}  // namespace ckptdb::internal
