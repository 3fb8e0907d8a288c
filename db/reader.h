// SPDX-License-Identifier: Apache-2.0
// Readers of a store: StepReader reads a committed step, ChangeReader the
// differences between two steps; Reader is a follower's handle, which opens
// both, as does Store of db/store.h.
#ifndef CKPTDB_DB_READER_H_
#define CKPTDB_DB_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/options.h"
#include "schema/types.h"

namespace ckptdb {

// Receives the rows of a scan from ReadOptions::threads workers at once,
// numbered from 0.
class RowSink {
 public:
  // The values of row r of slot i, in the requested order, are at slots[i] + r
  // * row_bytes, unaligned: copy them with memcpy. The memory is valid during
  // the call.
  struct Batch {
    absl::Span<const int64_t> ids;
    absl::Span<const char* const> slots;
  };

  virtual ~RowSink() = default;
  // An error ends the scan, which returns it.
  virtual absl::Status Consume(int worker, const Batch& batch) = 0;
};

// Receives the rows of a restore, or the changes between two steps.
class LiveTable : public RowSink {
 public:
  // Whether rows that are missing from the step are removed.
  enum class RestoreMode { kClear, kMerge };

  // Called before the first row in RestoreMode::kClear.
  virtual absl::Status Clear() = 0;
  // Erases ids, not all of which need to exist. Called like Consume.
  virtual absl::Status Erase(int worker, absl::Span<const int64_t> ids) = 0;
};

struct ScanOptions {
  // Slots to read, in this order, or all if empty.
  std::vector<std::string> slots = {};
  bool ids_only = false;
  // Limits the scan to these slices.
  SliceRange slices = {};
  // If set, limits the scan to ids for which it returns true, for shardings
  // other than by slices. All workers call it. Reads all pages of ids, and the
  // pages of slots with such rows.
  std::function<bool(int64_t id)> wanted = {};
  // The same for all ids of a page at once: sets keep[i] to 1 or 0 for ids[i].
  // If set, `wanted` is not used.
  std::function<void(absl::Span<const int64_t> ids, absl::Span<uint8_t> keep)>
      wanted_of_page = {};
  ReadOptions read = {};
};

// A committed step, open for reading. Its data stays on disk until the reader
// is destroyed.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(1000));
//   std::vector<float> weights(12);
//   CKPTDB_RETURN_IF_ERROR(
//       step->ReadTensor("mlp.0.weight", weights.data(), 48));
//   CKPTDB_RETURN_IF_ERROR(step->ScanTable("user", {}, &sink));
//
// Thread-safe. Every returned byte has been checked: methods return DataLoss
// naming the step, rank, item and key for data that fails a check. They return
// Aborted if the owner removed a step that is read without a lease. A failed
// call leaves undefined bytes in the caller's memory.
class StepReader {
 public:
  // A whole table, over all ranks.
  struct TableSpec {
    std::vector<Slot> slots;
    // The distinct codecs of each slot over all runs that are read.
    std::vector<std::vector<Codec>> codecs;
    SliceHash slice_hash = SliceHash::kModulo;
    // How the ranks divided the rows. Undeclared in old steps, in steps of one
    // rank that declared nothing, and for TableSharding::Unchecked; with slice
    // bounds, such tables are nevertheless sharded by slices.
    Item::Sharding sharding = Item::Sharding::kUndeclared;
    std::string sharding_name;  // of kCustom only
    // If not `exact`, an upper bound: in a delta step, rows overwritten or
    // erased count as often as they were written.
    uint64_t rows = 0;
    bool exact = true;
  };

  // What a scan of some slices reads, estimated from the records. A run of more
  // slices counts by its share of slices.
  struct ScanEstimate {
    uint64_t base_runs = 0;
    uint64_t delta_runs = 0;
    uint64_t rows = 0;          // approximate; counts a row once per run
    uint64_t max_rows = 0;      // rows of all runs that may contain any
    uint64_t erased_rows = 0;   // ids in delta runs, approximate
    uint64_t stored_bytes = 0;  // approximate
  };

  class Impl;
  explicit StepReader(std::unique_ptr<Impl> impl);
  ~StepReader();

  const StepRecord& record() const;
  // What each rank saved: ranks()[r].items.
  const std::vector<StepRecord::Rank>& ranks() const;

  // Return NotFound for an unknown name. The tensor has its whole shape, and
  // the bytes of all shards.
  absl::StatusOr<Item> FindTensor(absl::string_view name) const;
  absl::StatusOr<TableSpec> FindTable(absl::string_view name) const;

  // Reads the whole tensor, row-major, into `bytes` bytes at `out`. Returns
  // InvalidArgument for another size or a null `out`, and DataLoss if shards
  // leave a gap.
  absl::Status ReadTensor(absl::string_view name, void* out, uint64_t bytes,
                          const ReadOptions& options = {}) const;
  // The same for the part of `shape` at `offset`.
  absl::Status ReadTensorPart(absl::string_view name, const Shape& offset,
                              const Shape& shape, void* out, uint64_t bytes,
                              const ReadOptions& options = {}) const;

  // Reads many whole tensors, small ones far faster than calls of ReadTensor.
  // Returns the errors of ReadTensor: the first in the order of `reads`, those
  // of arguments before anything is read.
  struct TensorRead {
    absl::string_view name;
    void* out = nullptr;
    uint64_t bytes = 0;
  };
  absl::Status ReadTensors(absl::Span<const TensorRead> reads,
                           const ReadOptions& options = {}) const;

  // Returns a blob of one rank.
  absl::StatusOr<std::string> ReadBlob(uint32_t rank, absl::string_view name,
                                       const ReadOptions& options = {}) const;

  // Returns the values of the row of this id, by slot, or NotFound if no rank
  // saved it.
  absl::StatusOr<std::vector<std::string>> LookupRow(absl::string_view table,
                                                     int64_t id) const;
  // Looks up many ids, in any order and repeated or not, and reads each page
  // about once. Sets found[i] to whether any rank saved ids[i], and writes the
  // value of slots[s] to out[s] + i * row_bytes, zeros if none did. Returns
  // NotFound for an unknown table or slot, and InvalidArgument unless each slot
  // has an array in `out`, or if one or `found` is null.
  absl::Status LookupRows(absl::string_view table,
                          absl::Span<const int64_t> ids,
                          absl::Span<const std::string> slots,
                          absl::Span<char* const> out, bool* found,
                          const ReadOptions& options = {}) const;

  // Passes all rows of a table, of all ranks, to the sink, each once, in
  // batches of any order, merging the runs of a delta step's chain. Takes
  // memory for a window and a page per stream, run and thread; very long chains
  // are read by fewer threads, to stay below 1 GiB. Returns InvalidArgument for
  // a null sink.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         RowSink* sink) const;
  // Estimates a scan of all slots. Returns errors as ScanTable does before the
  // first row.
  absl::StatusOr<ScanEstimate> EstimateScan(absl::string_view table,
                                            const SliceRange& slices) const;
  // Scans the table into `live`, after clearing it if `mode` is kClear.
  absl::Status RestoreTable(absl::string_view table,
                            LiveTable::RestoreMode mode,
                            const ScanOptions& options, LiveTable* live) const;

  // Reads everything the step needs, including its chain, and checks it against
  // the digests in its records. Also returns DataLoss, naming the table, the id
  // and both ranks, if two ranks of a version saved the same row and no newer
  // version replaces it. Skips tables of versions in *verified and adds good
  // versions, so that verifying all steps of a chain reads each once.
  absl::Status Verify(const ReadOptions& options = {},
                      std::set<Version>* verified = nullptr) const;

 private:
  std::unique_ptr<Impl> impl_;
};

// The changes from one step to another, for a process that holds the state of
// the first, such as a warm standby. Their data stays on disk until the reader
// is destroyed.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto changes,
//                           reader->OpenChanges(held, /*to=*/2000));
//   CKPTDB_RETURN_IF_ERROR(changes->ScanTable("user", {}, &live_table));
//   for (const StepRecord::Rank& rank : changes->ChangedItems()) {
//     for (const Item& item : rank.items) apply(rank.rank, item);
//   }
//   held = changes->to().record().version;
//
// Forwards along a lineage, only the delta runs between the steps are read.
// Backwards or to another branch, every id changed on the way is looked up in
// the second step. Thread-safe; methods return the errors of StepReader.
class ChangeReader {
 public:
  class Impl;
  explicit ChangeReader(std::unique_ptr<Impl> impl);
  ~ChangeReader();

  const StepRecord& from() const;
  const StepReader& to() const;
  // Whether delta runs alone lead from the first step to the second.
  bool forwards() const;

  // Passes new and changed rows of a table to live->Consume, and erased ids,
  // some of which the first step may lack, to live->Erase: each id once, in
  // batches of any order. Slots not in `options.slots` keep their values.
  // Returns NotFound if the second step has no such table, and
  // FailedPrecondition if it was saved in full on the way or is missing in the
  // first step: read all of it then.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         LiveTable* live) const;

  // Estimates the delta runs that ScanTable reads; unless forwards(), it also
  // reads the ids of the second step's runs, and pages with changed ids.
  absl::StatusOr<StepReader::ScanEstimate> EstimateScan(
      absl::string_view table, const SliceRange& slices) const;

  // Returns, by rank, the tensors and blobs of the second step that are new or
  // differ from the first step's in bytes, shape or dtype.
  std::vector<StepRecord::Rank> ChangedItems() const;

 private:
  std::unique_ptr<Impl> impl_;
};

// The disk space of a store, by use.
struct Usage {
  struct Step {
    Version version;
    uint64_t exclusive_bytes = 0;  // stored by this version
    uint64_t borrowed_bytes = 0;   // stored by other versions
  };

  // A version without a step record.
  struct Held {
    enum class Reason {
      kReferenced,   // a step uses its data
      kLeased,       // a reader holds it
      kInProgress,   // belongs to a save in progress or interrupted
      kQuarantined,  // was acknowledged, but its record is lost
      kGarbage,      // the next sweep removes it
    };
    Version version;
    Reason reason = Reason::kGarbage;
    uint64_t stored_bytes = 0;
  };

  // The stored bytes of a name's items over all steps, without keys.
  struct Name {
    Item::Kind kind = Item::Kind::kRows;
    std::string name;              // of a table; empty for tensors and blobs
    uint64_t step_count = 0;       // steps that stored bytes of it
    uint64_t exclusive_bytes = 0;  // stored by steps
    uint64_t delta_bytes = 0;      // of exclusive_bytes, in delta runs
    // Stored by versions that are no longer steps, for a step.
    uint64_t referenced_bytes = 0;
  };

  // An entry of the store's folder that a sweep or TakePosts skipped.
  struct SkippedEntry {
    std::string path;    // below the store: "staging/12"
    std::string reason;  // human-readable
    // The store uses no such name. If false, removing it failed.
    bool foreign = false;
    bool operator==(const SkippedEntry&) const = default;
  };

  std::vector<Step> steps;          // by step
  std::vector<Held> held_versions;  // by version
  // With by_name, which reads the records of all ranks: an entry for tensors,
  // one for each table, by name, and one for blobs, if the store contains any.
  // Their exclusive_bytes add up to those of the steps.
  std::vector<Name> names;
  // All regular files below the store: the sum of the next five.
  uint64_t disk_bytes = 0;
  // db/: steps, held versions, and RocksDB's log, MANIFEST, indexes, headers
  // and space not freed yet.
  uint64_t database_bytes = 0;
  uint64_t staging_bytes = 0;  // of saves and folds in progress or interrupted
  uint64_t control_bytes = 0;  // leases, LOCK, OWNER, SHIPPED, WATERMARK
  uint64_t spare_bytes = 0;    // set aside: StoreOptions::spare_bytes
  uint64_t foreign_bytes = 0;  // under names that the store does not use
  // Foreign, finished and unreadable entries, by path.
  std::vector<SkippedEntry> unswept;
  // What an unprivileged user can still write to the file system.
  uint64_t available_bytes = 0;
  // Returns the part of database_bytes that belongs to neither steps nor held
  // versions; 0 if their estimates exceed it, as with a missing file.
  uint64_t overhead_bytes() const;
};

// A handle of a store for reading, with or without an owner. It writes only
// leases, where it can, and posts: metrics and pin requests, which the owner
// processes. Thread-safe.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto reader, Reader::Open("checkpoints"));
//   CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, reader->Latest());
//   CKPTDB_ASSIGN_OR_RETURN(auto step, reader->OpenStep(latest.version.step));
//   const Metrics metrics = {{"auc", Evaluate(*step)}};
//   CKPTDB_RETURN_IF_ERROR(reader->PostMetrics(latest.version.step, metrics));
class Reader {
 public:
  // Opens the store at `path`, or at a URL (remote/urls.h). Returns the errors
  // of Store::Open, and Unavailable if the owner writes continuously or the
  // file system shows stale files for seconds.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(
      absl::string_view path, const StoreOptions& options = {});
  ~Reader();

  const std::string& path() const;
  const std::string& uuid() const;

  // Catches up with the owner: other methods answer as of the last Refresh.
  // Returns FailedPrecondition if the store was removed or replaced: open a new
  // reader then.
  absl::Status Refresh();

  // Posts for a step that the owner has not processed yet.
  struct Posted {
    Metrics metrics;             // new ones, and those with another value
    std::optional<bool> pinned;  // if the pin will change
    std::optional<bool> ephemeral = std::nullopt;
    bool empty() const { return *this == Posted(); }
    bool operator==(const Posted&) const = default;
  };
  // Returns the unprocessed posts for this step, without posts that this
  // process may not read. Records from Steps, FindStep and Latest include them;
  // those of a StepReader do not.
  Posted FindPosted(int64_t step) const;

  // The same as in Store.
  std::vector<std::string> BadFiles() const;
  std::vector<StepRecord> Steps() const;
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  absl::StatusOr<StepRecord> Latest() const;
  UserMetadata user_metadata() const;
  // Describes the parts that FetchStore was asked for; "" if steps are whole.
  std::string parts() const;
  // StepReader::ranks without opening the step or taking a lease.
  absl::StatusOr<std::vector<StepRecord::Rank>> FindRanks(int64_t step) const;
  absl::StatusOr<Usage> GetUsage(bool by_name = false) const;
  // Returns when the leases of readers that keep the data of a version end,
  // unless they are renewed: ascending, since 1970, UTC.
  absl::StatusOr<std::vector<int64_t>> LeaseEnds(const Version& version) const;
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const;
  absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> ListEvaluations(
      int64_t step) const;

  // Catches up, then opens a step with a lease, which is renewed until the
  // StepReader is destroyed: the owner keeps the step's data even if it retires
  // the step. Destroy the StepReader before this reader. Returns NotFound if
  // the step no longer exists, and PermissionDenied if a required lease cannot
  // be written.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step);

  // Store::OpenChanges, with a lease on all data that it reads.
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to);

  // Adds metrics to a step, or replaces those of the same name, from a process
  // other than the owner. The post is a durable file in the folder `posts`,
  // which the owner processes, before retention, with its next save or when it
  // opens the store. The latest of several posts counts. A post does not keep
  // its step, and is skipped if the step was removed or overwritten.
  //
  // Returns NotFound for an unknown step, InvalidArgument for more than
  // kMaxMetrics, 1 MiB or names that cannot be stored, FailedPrecondition for a
  // URL or a backup, and PermissionDenied if the folder is not writable.
  absl::Status PostMetrics(int64_t step, const Metrics& metrics);
  // Ask the owner likewise to pin or unpin a step. Until then, retention may
  // remove the step; hold it by OpenStep.
  absl::Status RequestPin(int64_t step);
  absl::Status RequestUnpin(int64_t step);
  // The same for Store::SetEphemeral.
  absl::Status RequestEphemeral(int64_t step, bool ephemeral);

 private:
  class Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_READER_H_
