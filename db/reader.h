// Readers of a store: StepReader reads a committed step, ChangeReader reads
// what differs between two steps, and Reader is a follower's handle of the
// store. Store, in db/store.h, opens the first two as well.
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

// Receives the rows of a scan. It is called from `threads` workers at once,
// each with its own number from 0; the memory of a batch is valid during the
// call.
class RowSink {
 public:
  // Rows of a scan. The values of row r of slot i, in the requested order, are
  // the row_bytes bytes at slots[i] + r * row_bytes. They are not aligned: copy
  // them with memcpy.
  struct Batch {
    absl::Span<const int64_t> ids;
    absl::Span<const char* const> slots;
  };

  virtual ~RowSink() = default;
  // Takes a batch. An error ends the scan, which returns it.
  virtual absl::Status Consume(int worker, const Batch& batch) = 0;
};

// Receives the rows of a restore, or the changes between two steps, for a table
// in memory.
class LiveTable : public RowSink {
 public:
  // Says what happens to rows of the table that the step does not have.
  enum class RestoreMode { kClear, kMerge };

  // Removes all rows. It is called before the first row of a restore in
  // RestoreMode::kClear.
  virtual absl::Status Clear() = 0;
  // Erases these ids, which the table may not have. It is called as Consume is.
  virtual absl::Status Erase(int worker, absl::Span<const int64_t> ids) = 0;
};

struct ScanOptions {
  // Slots to read, in this order; the bytes of others are not read. If it is
  // empty, all are read. Set `ids_only` to read the ids alone.
  std::vector<std::string> slots = {};
  bool ids_only = false;
  // Limits the scan to the rows of these slices: a rank of another world reads
  // its own.
  SliceRange slices = {};
  // Limits the scan to the rows for whose id it returns true, for a trainer
  // that shards by a rule of its own, such as `id % world` or a hash. All
  // workers call it. Pages of slots without such a row are not read; all pages
  // of ids are.
  std::function<bool(int64_t id)> wanted = {};
  ReadOptions read = {};
};

// One committed step, open for reading. Store::OpenStep and Reader::OpenStep
// return it; what it needs stays on disk until it is destroyed.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(1000));
//   std::vector<float> weights(12);
//   CKPTDB_RETURN_IF_ERROR(
//       step->ReadTensor("mlp.0.weight", weights.data(), 48));
//   CKPTDB_RETURN_IF_ERROR(step->ScanTable("user", {}, &sink));
//
// All methods may be called from several threads at once. Every byte handed out
// was checked. They return DataLoss, naming the step, rank, item and key, for
// data that fails a check, and Aborted if the step is read without a lease (see
// ReaderOptions::leases) and the owner has removed it meanwhile. If a call
// fails, what it has written to the caller's memory is undefined.
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
    // The codecs of each slot over all runs that are read, each once, in order.
    std::vector<std::vector<Codec>> codecs;
    SliceHash slice_hash = SliceHash::kModulo;
    // The rule by which the ranks that saved the step divided its rows. It is
    // undeclared in steps from before it was recorded, in steps of one rank
    // that declared nothing, and where TableSharding::Unchecked was declared;
    // these are by slices all the same if the step has slice bounds.
    Item::Sharding sharding = Item::Sharding::kUndeclared;
    std::string sharding_name;  // of the function, of kCustom alone
    // The number of rows. It is exact unless `exact` is false: then the step is
    // a delta step and has at most so many, as rows that were written over or
    // erased count as often as they were written.
    uint64_t rows = 0;
    bool exact = true;
  };

  // An estimate of what a scan of some slices would read, from the records
  // alone. If the rank of a run held other slices too, the records do not say
  // how many rows are in these: `rows` and `bytes` count an even share of it.
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
  // Returns what each rank saved: ranks()[r].items.
  const std::vector<StepRecord::Rank>& ranks() const;

  // Returns NotFound if no rank has a tensor or table of that name.
  absl::StatusOr<TensorSpec> FindTensor(absl::string_view name) const;
  absl::StatusOr<TableSpec> FindTable(absl::string_view name) const;

  // Reads the whole tensor, row-major, into `bytes` bytes at `out`. Returns
  // InvalidArgument if the tensor has not exactly as many bytes or `out` is
  // null, and DataLoss if its shards leave a gap.
  absl::Status ReadTensor(absl::string_view name, void* out, uint64_t bytes,
                          const ReadOptions& options = {}) const;
  // Reads the part that begins at `offset` and has `shape`, in the same way.
  absl::Status ReadTensorPart(absl::string_view name, const Shape& offset,
                              const Shape& shape, void* out, uint64_t bytes,
                              const ReadOptions& options = {}) const;

  // Returns a blob of one rank.
  absl::StatusOr<std::string> ReadBlob(uint32_t rank, absl::string_view name,
                                       const ReadOptions& options = {}) const;

  // Returns the row of this id, whichever rank saved it. Returns NotFound if no
  // rank has it.
  absl::StatusOr<Row> LookupRow(absl::string_view table, int64_t id) const;

  // Hands all rows of a table, of all ranks, to the sink, each once, in batches
  // of any order. The runs of the chain of a delta step are merged, newest
  // first. That takes the memory of a window and a page of each stream of each
  // run, for each thread; fewer threads read a chain so long that these could
  // be over 1 GiB. Returns InvalidArgument if the sink is null.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         RowSink* sink) const;
  // Estimates such a scan of all slots. Returns the errors that ScanTable
  // returns before the first row.
  absl::StatusOr<ScanEstimate> EstimateScan(absl::string_view table,
                                            const SliceRange& slices) const;
  // Scans the table into a table that is in use, which is cleared first if
  // `mode` says so.
  absl::Status RestoreTable(absl::string_view table,
                            LiveTable::RestoreMode mode,
                            const ScanOptions& options, LiveTable* live) const;

  // Reads everything that the step needs, the runs of its chain too, and checks
  // it against the digests of its records. Also returns DataLoss, naming the
  // table, the id and both ranks, if two ranks of a version have saved the row
  // of an id that no newer version of the chain has: one of the rows would win,
  // or a scan would hand out both. Tables of a version in *verified are
  // skipped, and versions found good are added to it, so that those of a chain
  // are read once when all its steps are verified.
  absl::Status Verify(const ReadOptions& options = {},
                      const ReadOptions::Progress& progress = nullptr,
                      std::set<Version>* verified = nullptr) const;

 private:
  std::unique_ptr<Impl> impl_;
};

// The changes that lead from one step to another, for a process that holds the
// state of the first, such as a warm standby or a serving replica, and wants
// that of the second. Store::OpenChanges and Reader::OpenChanges return it;
// what it needs stays on disk until it is destroyed.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto changes,
//                           reader->OpenChanges(held, /*to=*/2000));
//   CKPTDB_RETURN_IF_ERROR(changes->ScanTable("user", {}, &live_table));
//   for (const ChangeReader::ItemName& item : changes->ChangedItems()) ...
//   held = changes->to().record().version;
//
// Going forwards along a lineage reads only the delta runs between the two
// steps. Going back to an older step or over to another branch looks up every
// id that was changed on the way in the second step.
//
// All methods may be called from several threads at once. They return the
// errors of StepReader.
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
  // Returns whether reading delta runs is enough to get from the first step to
  // the second.
  bool forwards() const;

  // Hands the rows of a table that are new or different in the second step to
  // live->Consume, and the ids that are gone to live->Erase: each id once, in
  // batches of any order. An id may be erased that the first step did not have.
  // If `options.slots` names some slots, the others of a row stay as they were.
  // Returns NotFound if the second step has no such table. Returns
  // FailedPrecondition if the table was saved whole on the way or the first
  // step does not have it: then all of it has to be read.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         LiveTable* live) const;

  // Estimates the delta runs that such a scan reads. A scan that does not go
  // forwards also reads the ids of the second step's runs, and the pages that
  // have rows of the ids that were changed. Returns the errors that ScanTable
  // returns before the first row.
  absl::StatusOr<StepReader::ScanEstimate> EstimateScan(
      absl::string_view table, const SliceRange& slices) const;

  // Returns the tensors and blobs of the second step whose bytes the first does
  // not have, or has under another shape or dtype.
  std::vector<ItemName> ChangedItems() const;

 private:
  std::unique_ptr<Impl> impl_;
};

// The disk space of a store by what uses it.
struct Usage {
  struct Step {
    Version version;
    uint64_t exclusive_bytes = 0;  // stored by this version itself
    uint64_t borrowed_bytes = 0;   // stored by other versions, used by it
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

  // The stored bytes of all items of a name over all steps, without keys.
  struct Name {
    Item::Kind kind = Item::Kind::kRows;
    std::string name;         // of a table; "" for all tensors, for all blobs
    uint64_t step_count = 0;  // that stored bytes of it themselves
    uint64_t exclusive_bytes = 0;  // stored by steps themselves
    uint64_t delta_bytes = 0;      // of exclusive_bytes, those of delta runs
    // Stored by versions that are no steps any more, and needed by a step.
    uint64_t referenced_bytes = 0;
  };

  // An entry of the store's folder that a sweep or TakePosts skips.
  struct SkippedEntry {
    std::string path;    // below the store: "staging/12"
    std::string reason;  // a text
    // True if the store gives no such name, so that the entry is not its own.
    // False if it is the store's and cannot be removed.
    bool foreign = false;

    bool operator==(const SkippedEntry&) const = default;
  };

  struct Options {
    // Fills in `names` from the records of all ranks of all steps.
    bool by_name = false;
  };

  std::vector<Step> steps;          // by step
  std::vector<Held> held_versions;  // by version
  // Filled in if Options::by_name is set: tensors, tables by name, blobs, as
  // far as there are any. Their exclusive_bytes add up to those of the steps.
  std::vector<Name> names;
  // The bytes of all regular files below the store; those with several names
  // count once.
  uint64_t disk_bytes = 0;
  // The following five add up to disk_bytes. database_bytes contains the bytes
  // of steps and held versions, and the overhead of RocksDB: its log and
  // MANIFEST, indexes, headers, and space that it has not freed yet.
  uint64_t database_bytes = 0;  // db/
  uint64_t staging_bytes = 0;   // of saves and folds in progress or cut short
  uint64_t control_bytes = 0;   // leases, LOCK, OWNER, WATERMARK
  uint64_t spare_bytes = 0;     // set aside: StoreOptions::spare_bytes
  uint64_t foreign_bytes = 0;   // under names that the store does not give
  // Entries that are not the store's, that were left by saves that are over, or
  // that cannot be read, by path.
  std::vector<SkippedEntry> unswept;
  // The space that a user without privileges may still write to the store's
  // file system.
  uint64_t available_bytes = 0;

  // Returns the part of database_bytes that belongs neither to steps nor to
  // held versions. Returns 0 if their estimates exceed it, as when a data file
  // is missing.
  uint64_t overhead_bytes() const;
};

// A handle of a store for reading, beside its owner or without one. It lists
// and reads steps, and writes only leases, and none where it cannot write. It
// can post metrics and pin requests, which the owner processes.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto reader, Reader::Open("checkpoints"));
//   CKPTDB_RETURN_IF_ERROR(reader->Refresh());
//   CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, reader->Latest());
//   CKPTDB_ASSIGN_OR_RETURN(auto step, reader->OpenStep(latest.version.step));
//   const Metrics metrics = {{"auc", Evaluate(*step)}};
//   CKPTDB_RETURN_IF_ERROR(reader->PostMetrics(latest.version.step, metrics));
//
// Thread-safe. For a forked child of a process that has opened one see
// db/store.h.
class Reader {
 public:
  // Opens the store at `path` for reading. Returns NotFound if there is no
  // store at `path`, DataLoss, FailedPrecondition and ResourceExhausted as
  // Store::Open does, raising the soft limit of open files as it does, and
  // Unavailable with the number of tries if an owner writes all the time or the
  // file system shows old files for seconds.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(
      absl::string_view path, const ReaderOptions& options = {});
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const std::string& path() const;
  const std::string& uuid() const;

  // Catches up with the owner: the methods below answer as of the last call
  // that returned OK. Returns FailedPrecondition if the store is gone or
  // another one is in its place: open a new reader then.
  absl::Status Refresh();

  // What readers have posted for a step, and the owner has not taken in yet.
  struct Posted {
    Metrics metrics;             // new ones, and those with another value
    std::optional<bool> pinned;  // if the pin will change

    bool empty() const { return metrics.empty() && !pinned.has_value(); }
    bool operator==(const Posted&) const = default;
  };
  // Returns what is posted for this step as of the last Refresh. The records
  // that Steps, FindStep and Latest return contain it already, so that the last
  // metrics of a run are visible after its owner has closed the store. The
  // records of a StepReader do not. Posts in a folder that this process may not
  // read are left out.
  Posted FindPosted(int64_t step) const;

  // The following are as in Store.
  std::vector<std::string> BadFiles() const;
  std::vector<StepRecord> Steps() const;
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  absl::StatusOr<StepRecord> Latest() const;
  UserMetadata user_metadata() const;
  // Returns what each rank saved of a step, as StepReader::ranks does, without
  // opening the step and without a lease.
  absl::StatusOr<std::vector<StepRecord::Rank>> FindRanks(int64_t step) const;
  absl::StatusOr<Usage> GetUsage(const Usage::Options& options = {}) const;
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const;
  absl::StatusOr<std::vector<StepRecord::Evaluation::Key>> ListEvaluations(
      int64_t step) const;

  // Opens a step, and takes a lease that is renewed until the StepReader is
  // destroyed: the owner keeps the step's data although it retires the step.
  // Catches up first, and returns NotFound if the step is gone. The reader must
  // outlive the StepReader. Without a lease (see ReaderOptions::leases) this
  // call and those of the StepReader return Aborted if the owner removes the
  // step meanwhile, as soon as a file of it is gone. Returns PermissionDenied
  // if a lease is required and cannot be written.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step);

  // Does what Store::OpenChanges does, with a lease on all that it reads.
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to);

  // Adds metrics to a step, or replaces those of the same name, for an
  // evaluator that is another process than the owner. The post is durable on
  // return, as a file in the store's folder `posts`; the owner takes it in with
  // its next save or when it opens the store, before retention is asked.
  // Readers show it after their next Refresh: see FindPosted. The later of
  // several posts counts. A post does not keep its step: it is passed over if
  // the step has gone or was written over. Does nothing without metrics.
  //
  // Returns NotFound if the step does not exist, InvalidArgument for more than
  // kMaxMetrics, for names that cannot be stored and for more than 1 MiB
  // together, and PermissionDenied if the folder cannot be written.
  absl::Status PostMetrics(int64_t step, const Metrics& metrics);
  // Asks the owner in the same way to pin a step: once the owner has taken the
  // post in, no retention removes the step. Until then it may go; OpenStep
  // keeps it that long.
  absl::Status RequestPin(int64_t step);
  // Asks the owner in the same way to unpin a step.
  absl::Status RequestUnpin(int64_t step);

 private:
  class Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_READER_H_
