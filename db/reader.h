// Reading a store: StepReader has a committed step, ChangeReader what differs
// between two, and Reader is a follower's handle of the store. Store, of
// db/store.h, hands out the first two as well.
#ifndef CKPTDB_DB_READER_H_
#define CKPTDB_DB_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
class StepReader {
 public:
  // A tensor as a whole, put together from the shards of all ranks.
  struct TensorSpec {
    DType dtype = DType::kF32;
    Shape shape;
    uint64_t raw_bytes = 0;
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
    uint64_t max_rows = 0;      // all rows of all runs that may have any
    uint64_t erased_rows = 0;   // ids in delta runs, about
    uint64_t stored_bytes = 0;  // about; as stored
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

// Where the bytes of a store are.
struct Usage {
  struct Step {
    Version version;
    uint64_t exclusive_bytes = 0;  // stored by this version itself
    uint64_t borrowed_bytes = 0;   // of other versions whose data it uses
  };

  // A version without a step record of its own.
  struct Held {
    enum class Reason {
      kReferenced,   // a step uses its data
      kLeased,       // a reader holds it
      kInProgress,   // of a save in progress, or of one that died
      kQuarantined,  // once acknowledged, its record is lost
      kGarbage,      // the next sweep removes it
    };
    Version version;
    Reason reason = Reason::kGarbage;
    uint64_t stored_bytes = 0;
  };

  // What all items of a name have of the store, over all steps, as stored:
  // without keys.
  struct Name {
    Item::Kind kind = Item::Kind::kRows;
    std::string name;         // of a table; "" for all tensors, for all blobs
    uint64_t step_count = 0;  // that stored bytes of it themselves
    uint64_t exclusive_bytes = 0;  // stored by steps themselves
    uint64_t delta_bytes = 0;      // of exclusive_bytes, those of delta runs
    // Of versions that are no steps any more, what a step needs.
    uint64_t referenced_bytes = 0;
  };

  // Something in the store's folder that no sweep removes.
  struct Unswept {
    std::string path;    // below the store: "staging/12"
    std::string reason;  // a text
    // It has no name that the store gives, and is nobody's but whoever put it
    // there. Off, it is the store's, and cannot be removed.
    bool foreign = false;

    bool operator==(const Unswept&) const = default;
  };

  struct Options {
    // Fills `names` in, from the records of all ranks of all steps.
    bool by_name = false;
  };

  std::vector<Step> steps;          // by step
  std::vector<Held> held_versions;  // by version
  // When asked for: tensors, tables by name, blobs; those that are there. The
  // exclusive_bytes of all add up to those of the steps.
  std::vector<Name> names;
  // Of all regular files below the store, those with several names once.
  uint64_t disk_bytes = 0;
  // Which these are; they add up to disk_bytes. What steps and others have is
  // in database_bytes, and so is what RocksDB keeps beside it: its log and
  // MANIFEST, indexes, headers, and space that it has not given back yet.
  uint64_t database_bytes = 0;  // db/
  uint64_t staging_bytes = 0;   // of saves and folds in progress or cut short
  uint64_t control_bytes = 0;   // leases, LOCK, OWNER, WATERMARK
  uint64_t spare_bytes = 0;     // set aside: StoreOptions::spare_bytes
  uint64_t foreign_bytes = 0;   // under names that the store does not give
  // Nothing of the store's, or left by saves that are over, or not to be looked
  // into: by path.
  std::vector<Unswept> unswept;
  // What a user without privileges may still write to its file system.
  uint64_t available_bytes = 0;

  // Of database_bytes, what is neither of steps nor of others; 0 where these
  // estimates are above it, as beside a data file that is gone.
  uint64_t overhead_bytes() const;
};

// A follower's handle of a store, beside its owner or without one: list and
// read. It changes nothing but leases, and needs none where it cannot write. It
// can post metrics and wishes for the owner to take in.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto reader, Reader::Open("checkpoints"));
//   CKPTDB_RETURN_IF_ERROR(reader->Refresh());
//   CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, reader->Latest());
//   CKPTDB_ASSIGN_OR_RETURN(auto step, reader->OpenStep(latest.version.step));
//   const Metrics metrics = {{"auc", Evaluate(*step)}};
//   CKPTDB_RETURN_IF_ERROR(reader->PostMetrics(latest.version.step, metrics));
//
// Thread-safe. In a forked child of a process that has opened one: see
// db/store.h.
class Reader {
 public:
  // NotFound when there is no store at `path`; DataLoss, FailedPrecondition as
  // Store::Open. Unavailable with the number of tries when an owner writes all
  // the time, or when the file system shows old files for seconds.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(
      absl::string_view path, const ReaderOptions& options = {});
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const std::string& path() const;
  const std::string& uuid() const;

  // Catches up with the owner: the methods below answer as of the last call
  // that was OK. FailedPrecondition when the store is gone, or another one is
  // in its place: it takes a new reader then.
  absl::Status Refresh();

  // As in Store.
  std::vector<std::string> BadFiles() const;
  std::vector<StepRecord> Steps() const;
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  absl::StatusOr<StepRecord> Latest() const;
  UserMetadata user_metadata() const;
  absl::StatusOr<Usage> GetUsage(const Usage::Options& options = {}) const;
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const;
  absl::StatusOr<std::vector<StepRecord::Evaluation::Key>> ListEvaluations(
      int64_t step) const;

  // Takes a lease, renewed until the StepReader is destroyed: the owner keeps
  // the step's data although it retires the step. Catches up, so that a step
  // that is gone is NotFound. The reader must outlive it. Without a lease (see
  // ReaderOptions::leases) a step that the owner removes meanwhile is Aborted,
  // here and in the calls of the StepReader, as soon as a file of it is gone.
  // PermissionDenied when a lease cannot be written but has to be.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step);

  // As in Store, with a lease on all that it reads.
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to);

  // Metrics of a step, for an evaluator that is another process than the owner:
  // beside those that it has, or instead of those of the same name. Durable on
  // return, as a file in the store's folder `posts`; the owner takes it in with
  // its next save or when it opens the store, before retention is asked, and
  // Steps() shows it after the next Refresh. Of several posts the later one
  // counts. The step is not kept for it: a post of one that has gone, or was
  // written over, is passed over. Does nothing without metrics.
  // NotFound for a step that is not there, InvalidArgument for more than
  // kMaxMetrics, names that cannot be stored and more than 1 MiB together,
  // PermissionDenied where the folder cannot be written.
  absl::Status PostMetrics(int64_t step, const Metrics& metrics);
  // Asks in the same way for a pin: from then on no retention removes the step.
  // It may go until the owner has taken the post in; OpenStep keeps it that
  // long.
  absl::Status RequestPin(int64_t step);

 private:
  class Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_READER_H_
