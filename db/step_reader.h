// One committed step, open for reading. From Store::OpenStep or
// Reader::OpenStep; what it needs stays on disk until it is destroyed.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(1000));
//   std::vector<float> weights(12);
//   CKPTDB_RETURN_IF_ERROR(
//       step->ReadTensor("mlp.0.weight", weights.data(), 48));
//   CKPTDB_RETURN_IF_ERROR(step->ScanTable("user", {}, &sink));
//
// All methods may be called from several threads at once. Every byte handed
// out was checked; DataLoss names the step, rank, item and key that failed.
// When a call fails, what it has written to the caller's memory is undefined.
#ifndef CKPTDB_DB_STEP_READER_H_
#define CKPTDB_DB_STEP_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/db/options.h"
#include "ckptdb/schema/records.h"

namespace ckptdb {

// A tensor as a whole, put together from the shards of all ranks.
struct TensorSpec {
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t bytes = 0;
};

// A table as a whole, over all ranks.
struct TableSpec {
  std::vector<Slot> slots;
  SliceHash slice_hash = SliceHash::kModulo;
  uint64_t rows = 0;
};

// Rows handed to a sink: values of slot i (in the order asked for) of row r
// are row_bytes of it at slots[i] + r * row_bytes. Not aligned: memcpy.
struct RowBatch {
  absl::Span<const int64_t> ids;
  absl::Span<const char* const> slots;
};

// Takes the rows of a scan. Called from `threads` workers at once, each with
// its own number from 0; what a batch points to is valid during the call.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // An error ends the scan, and is what the scan returns.
  virtual absl::Status Consume(int worker, const RowBatch& batch) = 0;
};

struct ScanOptions {
  // Slots to read, in this order; the bytes of others are not read. Empty:
  // all. For no slot but the ids set `ids_only`.
  std::vector<std::string> slots = {};
  bool ids_only = false;
  // Only the rows of these slices.
  SliceRange slices = {};
  ReadOptions read = {};
};

// Values of one row, slot by slot in the table's order.
struct RowValues {
  std::vector<std::string> slots;
};

// Bytes done so far and in all; called from any thread, one at a time.
using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

class StepReader {
 public:
  class Impl;
  explicit StepReader(std::unique_ptr<Impl> impl);
  ~StepReader();
  StepReader(const StepReader&) = delete;
  StepReader& operator=(const StepReader&) = delete;

  const StepRecord& record() const;
  // What each rank saved: ranks()[r].items.
  const std::vector<RankRecord>& ranks() const;

  // NotFound when no rank has a tensor or table of that name.
  absl::StatusOr<TensorSpec> FindTensor(absl::string_view name) const;
  absl::StatusOr<TableSpec> FindTable(absl::string_view name) const;

  // The whole tensor, row-major, into `bytes` bytes at `out`: exactly as many
  // as it has. InvalidArgument otherwise. DataLoss when shards leave a gap.
  absl::Status ReadTensor(absl::string_view name, void* out, uint64_t bytes,
                          const ReadOptions& options = {}) const;
  // The part of it that `box` says, in the same way.
  absl::Status ReadTensorBox(absl::string_view name, const Box& box, void* out,
                             uint64_t bytes,
                             const ReadOptions& options = {}) const;

  // A blob of one rank.
  absl::StatusOr<std::string> ReadBlob(uint32_t rank, absl::string_view name,
                                       const ReadOptions& options = {}) const;

  // The row of this id, wherever it is. NotFound when no rank has it.
  absl::StatusOr<RowValues> LookupRow(absl::string_view table,
                                      int64_t id) const;

  // All rows of a table, of all ranks, each once, in batches of any order.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         RowSink* sink) const;

  // Reads everything and checks it against the digests of its records.
  absl::Status Verify(const ReadOptions& options = {},
                      const Progress& progress = nullptr) const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STEP_READER_H_
