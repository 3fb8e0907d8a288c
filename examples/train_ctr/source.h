// SPDX-License-Identifier: Apache-2.0
// The source of examples: a log with a beginning, a held-out tail and an end,
// read forward from any position that was saved before.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_SOURCE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/example.h"

namespace train_ctr {

// A place between two examples of a log.
struct LogPosition {
  uint64_t offset = 0;  // bytes of a file, or examples of a generated log
  uint64_t line = 0;    // lines before it, for errors; 0 without lines

  bool operator==(const LogPosition&) const = default;
};

// A source of examples. Every error names the log and the position. Not
// thread-safe.
class Source {
 public:
  virtual ~Source() = default;

  virtual const FieldLayout& layout() const = 0;
  // Says which log this is, its length included: a position is good for the
  // same identity only.
  virtual std::string identity() const = 0;

  // Training examples are in [begin, tail), held-out ones in [tail, end).
  virtual LogPosition begin() const = 0;
  virtual LogPosition tail() const = 0;
  virtual LogPosition end() const = 0;

  // `position` is one of the above, or was returned by position().
  virtual absl::Status Seek(LogPosition position) = 0;
  virtual LogPosition position() const = 0;
  // Returns false at `stop`, and true with the example otherwise.
  virtual absl::StatusOr<bool> Next(LogPosition stop, Example* example) = 0;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_SOURCE_H_
