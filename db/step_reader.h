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
// Aborted: it is read without a lease (see ReaderOptions::leases), and the
// owner has removed it meanwhile.
// When a call fails, what it has written to the caller's memory is undefined.
#ifndef CKPTDB_DB_STEP_READER_H_
#define CKPTDB_DB_STEP_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/db/options.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

// Takes the rows of a scan. Called from `threads` workers at once, each with
// its own number from 0; what a batch points to is valid during the call.
class RowSink {
 public:
  // Rows handed to a sink: values of slot i (in the order asked for) of row r
  // are row_bytes of it at slots[i] + r * row_bytes. Not aligned: memcpy.
  struct Batch {
    absl::Span<const int64_t> ids;
    absl::Span<const char* const> slots;
  };

  virtual ~RowSink() = default;
  // An error ends the scan, and is what the scan returns.
  virtual absl::Status Consume(int worker, const Batch& batch) = 0;
};

// Takes the rows of a restore or the changes between two steps, for a table
// that is in use.
class LiveTable : public RowSink {
 public:
  // What becomes of rows that the live table has and the step has not.
  enum class RestoreMode { kClear, kMerge };

  // Before the first row of a restore in RestoreMode::kClear.
  virtual absl::Status Clear() = 0;
  // Ids that are gone, which the table may not have; as Consume.
  virtual absl::Status Erase(int worker, absl::Span<const int64_t> ids) = 0;
};

struct ScanOptions {
  // Slots to read, in this order; the bytes of others are not read. Empty:
  // all. For no slot but the ids set `ids_only`.
  std::vector<std::string> slots = {};
  bool ids_only = false;
  // Only the rows of these slices: a rank of another world reads its own.
  SliceRange slices = {};
  // Only the rows whose id it says true to, called from all workers: for a
  // trainer that shards by a rule of its own, `id % world` or a hash. Pages of
  // slots in which it wants no row are not read, those of ids are.
  std::function<bool(int64_t id)> wanted = {};
  ReadOptions read = {};
};

class StepReader {
 public:
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
    // How the ranks that saved the step divided its rows. Undeclared in steps
    // of before it was recorded, of one rank that declared nothing, and where
    // TableSharding::Unchecked was declared; these are by slices all the same
    // where the step has slice bounds.
    Item::Sharding sharding = Item::Sharding::kUndeclared;
    std::string sharding_name;  // of the function, of kCustom alone
    // Of a delta step at most so many: rows that were written over or erased
    // count as often as they were written.
    uint64_t rows = 0;
    bool exact = true;
  };

  // What a scan of some slices would read, from the records alone. Of a run
  // whose rank held other slices too they do not say how many rows are in
  // these: `rows` and `bytes` have an even share of it.
  struct ScanEstimate {
    uint64_t base_runs = 0;
    uint64_t delta_runs = 0;
    uint64_t rows = 0;          // about; one in several runs counts in each
    uint64_t rows_at_most = 0;  // all rows of all runs that may have any
    uint64_t erased = 0;        // ids in delta runs, about
    uint64_t bytes = 0;         // about; as stored
  };

  // Values of one row, slot by slot in the table's order.
  struct Row {
    std::vector<std::string> slots;
  };

  class Impl;
  explicit StepReader(std::unique_ptr<Impl> impl);
  ~StepReader();
  StepReader(const StepReader&) = delete;
  StepReader& operator=(const StepReader&) = delete;

  const StepRecord& record() const;
  // What each rank saved: ranks()[r].items.
  const std::vector<StepRecord::Rank>& ranks() const;

  // NotFound when no rank has a tensor or table of that name.
  absl::StatusOr<TensorSpec> FindTensor(absl::string_view name) const;
  absl::StatusOr<TableSpec> FindTable(absl::string_view name) const;

  // The whole tensor, row-major, into `bytes` bytes at `out`: exactly as many
  // as it has. InvalidArgument otherwise, and when `out` is null. DataLoss when
  // shards leave a gap.
  absl::Status ReadTensor(absl::string_view name, void* out, uint64_t bytes,
                          const ReadOptions& options = {}) const;
  // The part of it that begins at `offset` and has `shape`, in the same way.
  absl::Status ReadTensorPart(absl::string_view name, const Shape& offset,
                              const Shape& shape, void* out, uint64_t bytes,
                              const ReadOptions& options = {}) const;

  // A blob of one rank.
  absl::StatusOr<std::string> ReadBlob(uint32_t rank, absl::string_view name,
                                       const ReadOptions& options = {}) const;

  // The row of this id, wherever it is. NotFound when no rank has it.
  absl::StatusOr<Row> LookupRow(absl::string_view table, int64_t id) const;

  // All rows of a table, of all ranks, each once, in batches of any order: of
  // a delta step the runs of its chain are merged, newest first. Memory: a
  // window and a page of each stream of each run, for each thread; a chain so
  // long that these could be over 1 GiB has fewer threads. InvalidArgument when
  // the sink is null.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         RowSink* sink) const;
  // Of such a scan of all slots. Errors as ScanTable, before the first row.
  absl::StatusOr<ScanEstimate> EstimateScan(absl::string_view table,
                                            const SliceRange& slices) const;
  // The same into a table that is in use.
  absl::Status RestoreTable(absl::string_view table,
                            LiveTable::RestoreMode mode,
                            const ScanOptions& options, LiveTable* live) const;

  // Reads everything that the step needs, the runs of its chain too, and
  // checks it against the digests of its records. Also DataLoss, naming the
  // table, the id and both ranks, when two ranks of a version have saved the
  // row of an id that no newer version of the chain has: one of the rows would
  // win, or a scan hand out both. Tables of a version in
  // *verified are passed over, and versions found good are added to it: so
  // that those of a chain are read once when all its steps are verified.
  absl::Status Verify(const ReadOptions& options = {},
                      const ReadOptions::Progress& progress = nullptr,
                      std::set<Version>* verified = nullptr) const;

 private:
  std::unique_ptr<Impl> impl_;
};

// What leads from one step to another: for a process that holds the state of
// the first, such as a warm standby or a serving replica, and wants that of the
// second. From Store::OpenChanges or Reader::OpenChanges; what it needs stays
// on disk until it is destroyed.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto changes,
//                           reader->OpenChanges(held, /*to=*/2000));
//   CKPTDB_RETURN_IF_ERROR(changes->ScanTable("user", {}, &live_table));
//   for (const ChangeReader::ItemName& item : changes->ChangedItems()) ...
//   held = changes->to().record().version;
//
// Forwards along a lineage only the delta runs between the two are read. In
// other cases, back to an older step or over to another branch, every id that
// was touched on the way is looked up in the second step.
//
// All methods may be called from several threads at once. Errors as in
// StepReader.
class ChangeReader {
 public:
  // A tensor or a blob.
  struct ItemName {
    uint32_t rank = 0;
    Item::Kind kind = Item::Kind::kTensor;
    std::string name;

    bool operator==(const ItemName&) const = default;
  };

  class Impl;
  explicit ChangeReader(std::unique_ptr<Impl> impl);
  ~ChangeReader();
  ChangeReader(const ChangeReader&) = delete;
  ChangeReader& operator=(const ChangeReader&) = delete;

  const StepRecord& from() const;
  const StepReader& to() const;
  // Whether all that is between them is done by reading delta runs.
  bool forwards() const;

  // The rows of a table that are new or others in the second step go to
  // live->Consume, the ids that are gone to live->Erase: each id once, in
  // batches of any order; an id may be erased that the first step did not
  // have. The other slots of a row are as they were when `options.slots` names
  // some. NotFound when the second step has no such table; FailedPrecondition
  // when it was saved whole on the way, or the first step has it not: then all
  // of it is to be read.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         LiveTable* live) const;

  // Of the delta runs that such a scan reads. When it does not go forwards it
  // also reads the ids of the second step's runs, and the pages that have rows
  // of what was touched. Errors as ScanTable, before the first row.
  absl::StatusOr<StepReader::ScanEstimate> EstimateScan(
      absl::string_view table, const SliceRange& slices) const;

  // Tensors and blobs of the second step whose bytes the first has not, or has
  // under another shape or dtype.
  std::vector<ItemName> ChangedItems() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STEP_READER_H_
