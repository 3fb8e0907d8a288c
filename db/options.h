// What callers may choose. Every field says what it trades.
//
// Functions and objects of the caller's that the library calls should throw
// nothing. Where one throws, on whatever thread, the call that it was part of
// ends with Internal, which says what threw and the exception's own words;
// std::bad_alloc is ResourceExhausted, as memory of the library's own is that
// cannot be had. No exception leaves a call that returns a status.
#ifndef CKPTDB_DB_OPTIONS_H_
#define CKPTDB_DB_OPTIONS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {
namespace internal {
// The file system and the clock under a store: for tests of the library. Null
// stands for the machine's own.
class Environment;
}  // namespace internal

// Where a store tells what happens below it, for people who look for the cause
// of something, and a manager its warnings.
//
//   class ToMyLog : public ckptdb::Logger {
//     void Log(Severity severity, absl::string_view message) override {
//       my_log(message);
//     }
//   };
//   ckptdb::StoreOptions options;
//   options.logger = std::make_shared<ToMyLog>();
class Logger {
 public:
  enum class Severity { kInfo, kWarning, kError };

  virtual ~Logger() = default;

  // A line without its end. Called from any thread, several at once, also while
  // locks of the store are held: it may not call the store, and should return
  // soon. What it throws is dropped, as a message is no reason to fail a save.
  virtual void Log(Severity severity, absl::string_view message) = 0;
};

// The payload of the error of Store::Open when somebody has the store open for
// writing: the holder's pid and host. I/O errors, Unavailable as well, have
// none.
inline constexpr char kHolderPayload[] = "ckptdb/holder";

struct StoreOptions {
  // How far deltas may go before a new base is due. The store says so in
  // SaveResult and refuses nothing.
  struct ChainBounds {
    // Delta versions after the base: each costs a restore some seeks.
    // Default: 50.
    uint64_t max_deltas = 50;

    // Stored bytes of delta runs relative to those of the base runs: a restore
    // reads both. Default: 1.0.
    double max_delta_ratio = 1.0;  // at least 0
  };

  // Make the store when the folder holds none. Default: true.
  bool create_if_missing = true;

  // Modes of the folders and files that the store makes. Model weights are
  // nobody else's business. Default: 0700 and 0600.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;

  // Free space that no save may eat: room for the commit itself and for what
  // else lives on the disk. A save that would is refused before it starts.
  // Default: 64 MiB.
  uint64_t reserve_bytes = uint64_t{64} << 20;

  // Space that the store sets aside while there is enough of it, in its file
  // SPARE, and uses on a disk that is full: to be opened, to remove steps and
  // to sweep. What the removal of one step writes is mostly under 100 KiB, and
  // at most 8 MiB. 0: none. Default: 8 MiB.
  uint64_t spare_bytes = uint64_t{8} << 20;

  // Read tables around the page cache where the file system can: a third of
  // the CPU time, and the trainer's page cache stays its own. Off, several
  // processes of one machine that read the same step share what the page cache
  // has of it. Default: true.
  bool direct_reads = true;

  // Fold the newest step in the background when its chain is over `bounds`.
  // Default: false.
  bool background_fold = false;
  ChainBounds fold_bounds = {};

  // Remove what nothing refers to in a background thread, at open and after
  // every commit and deletion. Off, only Sweep() does it. Default: true.
  bool background_sweep = true;

  // Told of what RocksDB warns of. Null: it is in db/LOG and db/LOG.old, of at
  // most 1 MiB each, as far as it fits on the disk. Default: null.
  std::shared_ptr<Logger> logger = {};

  // Called with the name of each point of kCrashPoints that a call passes, by
  // the thread that passes it: for tests and drills. One that throws ends the
  // call with Internal; after the commit of a step the store is out of use
  // then, as after an I/O error, and has the step when it is opened again.
  std::function<void(absl::string_view point)> on_point = {};
  std::shared_ptr<internal::Environment> environment = {};
};

namespace internal {
// Returns InvalidArgument for a ratio that is negative or NaN.
absl::Status CheckChainBounds(const StoreOptions::ChainBounds& bounds);
}  // namespace internal

// A week: the longest lease. A sweep takes one that ends more than
// kMaxClockSkewMs after that for one of a clock that is wrong, and removes it.
inline constexpr int64_t kMaxLeaseMs = int64_t{7} * 24 * 3600 * 1000;
inline constexpr int64_t kMaxClockSkewMs = int64_t{24} * 3600 * 1000;

struct ReaderOptions {
  // Whether a reader asks the owner to keep what it reads, by a file in the
  // store's leases folder.
  enum class LeaseMode {
    kRequired,       // a step that cannot be leased is not opened
    kWherePossible,  // without one where none can be written: see below
    kNone,           // nothing is written
  };

  // A reader of a read-only mount or snapshot, of another user's store or of a
  // full disk can write no lease. Without one the owner may remove a step while
  // it is read: what is read then is Aborted, never wrong. Default:
  // kWherePossible.
  LeaseMode leases = LeaseMode::kWherePossible;

  // How long a lease lasts when it is not renewed: how long the steps of a
  // reader that died stay. At most kMaxLeaseMs. Default: 60 s.
  int64_t lease_ms = 60'000;

  // As in StoreOptions.
  bool direct_reads = true;

  std::shared_ptr<internal::Environment> environment = {};
};

struct StageOptions {
  // Workers that write files. A worker waits for the disk half of its time,
  // so more of them than cores are worth having; each takes about 6 MiB of
  // memory, and its file some milliseconds of the commit. Default: 8.
  int threads = 8;

  // Write around the page cache where the file system can: less than half of
  // the CPU time, and the trainer's page cache stays its own. Default: true.
  bool direct_writes = true;

  // Store a tensor again although the parent has the same bytes: costs the
  // bytes, frees the parent's. Default: false.
  bool rewrite_unchanged = false;

  // As in StoreOptions.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;
  uint64_t reserve_bytes = uint64_t{64} << 20;
  std::function<void(absl::string_view point)> on_point = {};
  std::shared_ptr<internal::Environment> environment = {};
};

// What is saved: fixed at Begin.
struct SaveSpec {
  // What becomes of the steps that were saved after the one a save goes on
  // from: of a run that was given up when an older step was restored.
  enum class Abandoned {
    kRefuse,  // FailedPrecondition: two runs write to one store, unless told
    kKeep,    // they stay
    kRemove,  // they stop to exist in the same write batch
  };

  int64_t step = 0;

  // Replace the step if it exists; the old one stays until the new one is
  // committed. Off, an existing step is AlreadyExists. Default: false.
  bool overwrite = false;

  // How many ranks stage. Default: 1.
  uint32_t world_size = 1;

  // Of tables by slices: rank r has the rows of slices [slice_bounds[r],
  // slice_bounds[r + 1]) only, and staging checks it: see EvenSliceBounds.
  // Tables that declare no sharding are by slices when it is not empty. Those
  // that declare another are not concerned: see TableSharding. Default: empty.
  std::vector<uint32_t> slice_bounds = {};

  // The step that the state goes on from: the one this trainer saved or
  // restored last, as SaveResult::version or StepRecord::version had it.
  // Tables that are given with their changes are saved as delta runs over it.
  // It must be committed, not be quarantined, not be after `step`, and be the
  // newest, unless `abandoned` says what becomes of those after it. Unset: all
  // tables are saved whole. Default: unset.
  std::optional<Version> parent = std::nullopt;
  Abandoned abandoned = Abandoned::kRefuse;

  // When the save began, since 1970, UTC, at least 0: the record's save_micros
  // count from then. Default: the clock of the store, at Begin.
  std::optional<int64_t> begun_at_micros = std::nullopt;
};

// What is known when all ranks have staged.
struct PublishSpec {
  Metrics metrics = {};             // at most kMaxMetrics
  UserMetadata user_metadata = {};  // at most kMaxMetadataBytes in all
  bool ephemeral = false;

  // When SaveResult::base_due_reason speaks.
  StoreOptions::ChainBounds bounds = {};

  // Steps that stop to exist in the same write batch, because retention says
  // so. Unknown ones are NotFound, pinned ones FailedPrecondition, and then
  // nothing is published.
  std::vector<int64_t> retire = {};

  // What the record has as its committed_at_micros, since 1970, UTC, at least
  // 0. Default: the clock of the store, at Publish.
  std::optional<int64_t> committed_at_micros = std::nullopt;
};

struct ReadOptions {
  // Called with what is done so far and in all, in bytes; from any thread, one
  // call at a time.
  using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

  // Threads of one call. More than cores keep the disk busy: each reads, and
  // then checks and hands on what it read. Default: 16.
  int threads = 16;

  // Read at a time of each stream, as far as it goes: at most 2 MiB, and at
  // least a page, however little is asked for. Default: 2 MiB.
  uint64_t readahead_bytes = uint64_t{2} << 20;
};

struct FoldOptions {
  // Workers that merge and write, each a range of slices. Default: 4.
  int threads = 4;

  // As in ReadOptions.
  uint64_t readahead_bytes = uint64_t{2} << 20;

  // Asked often, from all workers: true ends the fold with Cancelled. What is
  // done so far is kept, and the next Fold of the step goes on from there.
  std::function<bool()> cancelled = {};

  ReadOptions::Progress progress = {};
};

// The named points of a save and a sweep, in the order in which they are
// passed. A process may die at any of them; tests loop over all.
namespace point {
// 1. Begin: the attempt record is durable.
inline constexpr absl::string_view kBegun = "begin:recorded";
// 2. Stage: a first file is on its way; all files are durable.
inline constexpr absl::string_view kStaging = "stage:writing";
inline constexpr absl::string_view kStaged = "stage:done";
// 3. Publish: (a) all was checked; (b) the files are in the database; (c) the
// batch is durable, the step exists; (d) it is flushed, and acknowledged next.
inline constexpr absl::string_view kChecked = "publish:checked";
inline constexpr absl::string_view kIngested = "publish:ingested";
inline constexpr absl::string_view kCommitted = "publish:committed";
inline constexpr absl::string_view kFlushed = "publish:flushed";
// 4. Sweep: garbage is known; its files are gone; its records are gone.
inline constexpr absl::string_view kSweepMarked = "sweep:marked";
inline constexpr absl::string_view kSweepFreed = "sweep:freed";
inline constexpr absl::string_view kSweepDone = "sweep:done";
}  // namespace point

inline constexpr std::array<absl::string_view, 10> kCrashPoints = {
    point::kBegun,      point::kStaging,   point::kStaged,  point::kChecked,
    point::kIngested,   point::kCommitted, point::kFlushed, point::kSweepMarked,
    point::kSweepFreed, point::kSweepDone,
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_OPTIONS_H_
