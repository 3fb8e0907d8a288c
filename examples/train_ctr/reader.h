// SPDX-License-Identifier: Apache-2.0
// The endless stream of training examples: the log over and over, shuffled
// through a buffer. Its position can be saved and restored, and a restored
// stream continues with exactly the examples of the saved one.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_READER_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train_ctr/log.h"
#include "train_ctr/random.h"

namespace train_ctr {

inline constexpr size_t kMaxShuffleExamples = 1 << 20;

// Reads batches of examples. After an error the object must not be used
// further. Not thread-safe.
class Reader {
 public:
  // Each example leaves a buffer of `shuffle_examples` (1 to
  // kMaxShuffleExamples; 1 keeps the order of the log) at random.
  static absl::StatusOr<std::unique_ptr<Reader>> Create(
      std::unique_ptr<Log> log, size_t shuffle_examples, uint64_t seed);

  const FieldLayout& layout() const { return log_->layout(); }
  // Passes over the log that were begun, less one.
  uint64_t epoch() const { return epoch_; }

  // Replaces the batch by the next `examples` ones.
  absl::Status NextBatch(size_t examples, Batch* batch);

  // Replaces the batch by up to `examples` held-out ones, from
  // `*position` on, which it moves. Empty at the end. Does not affect
  // the training examples.
  absl::Status NextHeldOut(size_t examples, LogPosition* position,
                           Batch* batch);
  LogPosition held_out_begin() const { return log_->tail(); }

  // Returns the position, from which a new Reader of the same log continues.
  std::string SavePosition() const;
  // Returns FailedPrecondition if the position is of another log or shuffle
  // size, and DataLoss if it is not a position.
  absl::Status RestorePosition(absl::string_view position);

 private:
  Reader(std::unique_ptr<Log> log, size_t shuffle_examples, uint64_t seed)
      : log_(std::move(log)),
        shuffle_examples_(shuffle_examples),
        random_(Mix(seed, 0x72656164)) {}

  absl::Status NextOfLog(Example* example);
  absl::Status NextExample(Batch* batch);
  std::string identity() const;

  std::unique_ptr<Log> log_;
  size_t shuffle_examples_;
  Random random_;
  uint64_t epoch_ = 0;
  std::vector<Example> buffer_;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_READER_H_
