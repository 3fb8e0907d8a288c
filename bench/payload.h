// SPDX-License-Identifier: Apache-2.0
// The payload of the benchmarks: random bytes, which no codec makes smaller, in
// memory of the trainer.
#ifndef CKPTDB_BENCH_PAYLOAD_H_
#define CKPTDB_BENCH_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/raw_io.h"
#include "db/reader.h"
#include "db/state.h"

namespace ckptdb::bench {

// Zeroed pages of this process, all of them resident.
class Pages {
 public:
  static absl::StatusOr<Pages> Allocate(size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&&) = delete;

  Memory memory() const { return {data_, bytes_}; }

 private:
  Pages(char* data, size_t bytes) : data_(data), bytes_(bytes) {}
  char* data_;
  size_t bytes_;
};

// The same for the same seed.
void FillRandom(const Memory& memory, uint64_t seed);

// Some rows of a table, as changes of it.
struct ChangedPart {
  std::vector<int64_t> ids;
  std::unique_ptr<RowSource> rows;
};

// A table of 64 f32 of an embedding and 64 f32 of its optimizer, with random
// ids.
class Table {
 public:
  static constexpr uint32_t kElements = 64;
  static constexpr uint64_t kSlotBytes = kElements * sizeof(float);
  static constexpr uint64_t kRowBytes = sizeof(int64_t) + 2 * kSlotBytes;

  // Returns InvalidArgument if there are no rows.
  static absl::StatusOr<std::unique_ptr<Table>> Make(uint64_t rows,
                                                     uint64_t seed);

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return rows_ * kRowBytes; }
  // Ids, embeddings, optimizer state.
  std::vector<Memory> payload() const;
  // Adds the table under the name "table". The state refers to this object.
  void AddTo(RankState* state) const;

  // Changes every `stride`th row from `first` on, and says which.
  std::unique_ptr<ChangedPart> Change(uint64_t first, uint64_t stride);
  void AddChangesTo(const ChangedPart& changed, RankState* state) const;

  // Scans the table back into this memory, its rows in the order they come.
  absl::Status ReadFrom(const StepReader& step, const ReadOptions& options);
  void Clear();
  // Returns the digest of all rows, whatever their order.
  uint64_t Digest() const;

 private:
  Table(uint64_t rows, Pages ids, Pages embedding, Pages adagrad);

  const uint64_t rows_;
  const Pages ids_;
  const Pages embedding_;
  const Pages adagrad_;
  const RowSource::Arrays source_;
};

// Tensors of different sizes: half of all the bytes, a quarter, and so on.
class Tensors {
 public:
  // `bytes` is rounded up to a multiple of 1 MiB.
  static absl::StatusOr<std::unique_ptr<Tensors>> Make(uint64_t bytes,
                                                       uint64_t seed);

  uint64_t bytes() const { return pages_.memory().bytes; }
  std::vector<Memory> payload() const { return {pages_.memory()}; }
  // Refers to this object.
  void AddTo(RankState* state) const;

  absl::Status ReadFrom(const StepReader& step, const ReadOptions& options);
  void Clear();
  uint64_t Digest() const;

 private:
  Tensors(Pages pages, std::vector<Memory> tensors)
      : pages_(std::move(pages)), tensors_(std::move(tensors)) {}

  const Pages pages_;
  const std::vector<Memory> tensors_;
};

}  // namespace ckptdb::bench

#endif  // CKPTDB_BENCH_PAYLOAD_H_
