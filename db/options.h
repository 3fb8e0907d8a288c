// Options of a store and of its calls. Every field says what it trades.
//
// Functions and objects of the caller that the library calls should throw
// nothing. Where one throws, on whatever thread, the call that it was part of
// returns Internal with what threw and the exception's own words.
// std::bad_alloc becomes ResourceExhausted, as it does where the library itself
// cannot allocate memory. No exception leaves a call that returns a status.
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
// The file system and the clock under a store, which tests of the library
// replace. Null stands for the machine's own.
class Environment;
}  // namespace internal

// Receives the messages of a store about what happens below it, for people who
// look for a cause, and the warnings of a manager.
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

  // Receives one message, a line without its end. Any thread may call it,
  // several at once, also while locks of the store are held: it may not call
  // the store, and should return soon. An exception from it is dropped, as a
  // message is no reason to fail a save.
  virtual void Log(Severity severity, absl::string_view message) = 0;
};

// The payload of the error of Store::Open when somebody has the store open for
// writing: the holder's pid and host. An I/O error, which is Unavailable as
// well, has no such payload.
inline constexpr char kHolderPayload[] = "ckptdb/holder";

struct StoreOptions {
  // Bounds on the deltas after which a new base is due. The store reports that
  // in SaveResult and refuses nothing.
  struct ChainBounds {
    // The maximum number of delta versions after the base; each costs a restore
    // some seeks. Default: 50.
    uint64_t max_deltas = 50;

    // The maximum of the stored bytes of delta runs relative to those of the
    // base runs; a restore reads both. Default: 1.0.
    double max_delta_ratio = 1.0;  // at least 0
  };

  // Creates the store if the folder holds none. Default: true.
  bool create_if_missing = true;

  // Modes of the folders and files that the store creates. By default other
  // users cannot read the model's weights. They include 0700 and 0600, which
  // the owner needs itself, and are at most 07777. Default: 0700 and 0600.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;

  // Free space that no save may use: it is left for the commit itself and for
  // other users of the disk. A save that would use it is refused before it
  // starts. Default: 64 MiB.
  uint64_t reserve_bytes = uint64_t{64} << 20;

  // Space that the store sets aside in its file SPARE while there is enough,
  // and uses on a full disk to open, to remove steps and to sweep. The removal
  // of one step mostly writes less than 100 KiB, and at most 8 MiB. 0 sets
  // nothing aside. Default: 8 MiB.
  uint64_t spare_bytes = uint64_t{8} << 20;

  // Reads tables around the page cache where the file system can. That takes a
  // third of the CPU time, and leaves the page cache to the trainer. If false,
  // several processes of one machine that read the same step share its pages in
  // the cache. Default: true.
  bool direct_reads = true;

  // Folds the newest step in the background when its chain is over
  // `fold_bounds`. Default: false.
  bool background_fold = false;
  ChainBounds fold_bounds = {};

  // Removes what nothing refers to in a background thread, at open and after
  // every commit and deletion. If false, only Sweep() does so. Default: true.
  bool background_sweep = true;

  // Receives the warnings of RocksDB. If null, they are only in db/LOG and
  // db/LOG.old, of at most 1 MiB each, as far as they fit on the disk. Default:
  // null.
  std::shared_ptr<Logger> logger = {};

  // Called with the name of each point of kCrashPoints that a call passes, by
  // the thread that passes it, for tests and drills. If it throws, the call
  // returns Internal; after the commit of a step the store is then out of use,
  // as after an I/O error, and has the step when it is opened again.
  std::function<void(absl::string_view point)> on_point = {};
  std::shared_ptr<internal::Environment> environment = {};
};

namespace internal {
// Returns InvalidArgument for a ratio that is negative or NaN.
absl::Status CheckChainBounds(const StoreOptions::ChainBounds& bounds);
}  // namespace internal

// The longest lease is a week. If a lease ends more than kMaxClockSkewMs after
// that, a sweep assumes that it was written by a wrong clock, and removes it.
inline constexpr int64_t kMaxLeaseMs = int64_t{7} * 24 * 3600 * 1000;
inline constexpr int64_t kMaxClockSkewMs = int64_t{24} * 3600 * 1000;

struct ReaderOptions {
  // Says whether a reader asks the owner to keep what it reads, by a file in
  // the store's leases folder.
  enum class LeaseMode {
    kRequired,       // a step that cannot be leased is not opened
    kWherePossible,  // without one where none can be written: see below
    kNone,           // nothing is written
  };

  // A reader of a read-only mount or snapshot, of another user's store or of a
  // full disk can write no lease. Without one the owner may remove a step while
  // it is read: the read then returns Aborted, never wrong data. Default:
  // kWherePossible.
  LeaseMode leases = LeaseMode::kWherePossible;

  // The time that a lease lasts unless it is renewed, which is how long the
  // steps of a reader that died stay. It is at most kMaxLeaseMs. Default: 60 s.
  int64_t lease_ms = 60'000;

  // The same as in StoreOptions.
  bool direct_reads = true;

  std::shared_ptr<internal::Environment> environment = {};
};

struct StageOptions {
  // The number of workers that write files. A worker waits for the disk half of
  // its time, so more of them than cores are useful; each takes about 6 MiB of
  // memory, and its file some milliseconds of the commit. At least 1. Default:
  // 8.
  int threads = 8;

  // Writes around the page cache where the file system can. That takes less
  // than half of the CPU time, and leaves the page cache to the trainer.
  // Default: true.
  bool direct_writes = true;

  // Stores a tensor again although the parent has the same bytes. That costs
  // the bytes, and lets the parent's be freed. Default: false.
  bool rewrite_unchanged = false;

  // The same as in StoreOptions. Store::Save and a manager take those of their
  // store instead, but for on_point where it is set.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;
  uint64_t reserve_bytes = uint64_t{64} << 20;
  std::function<void(absl::string_view point)> on_point = {};
  std::shared_ptr<internal::Environment> environment = {};
};

namespace internal {
// Returns the options with which something is staged for a store: with the
// modes, the file system and the reserve of the store, whatever `stage` says.
StageOptions StageFor(const StoreOptions& store, StageOptions stage);
}  // namespace internal

// The description of a save that is fixed at Begin.
struct SaveSpec {
  // Says what happens to the steps that were saved after the parent of a save:
  // they belong to a run that was given up when an older step was restored.
  enum class Abandoned {
    kRefuse,  // FailedPrecondition: two runs write to one store, unless told
    kKeep,    // they stay
    kRemove,  // they are removed in the same write batch, but pinned ones stay
  };

  int64_t step = 0;

  // Replaces the step if it exists; the old one stays until the new one is
  // committed. If false, an existing step is AlreadyExists. A pinned step is
  // FailedPrecondition, unless it is quarantined: then the step that replaces
  // it is pinned. Default: false.
  bool overwrite = false;

  // The number of ranks that stage. Default: 1.
  uint32_t world_size = 1;

  // The bounds of tables that are sharded by slices: rank r has only the rows
  // of slices [slice_bounds[r], slice_bounds[r + 1]), and staging checks that.
  // See EvenSliceBounds. If it is not empty, tables that declare no sharding
  // are sharded by slices. It does not apply to tables that declare another
  // sharding: see TableSharding. Default: empty.
  std::vector<uint32_t> slice_bounds = {};

  // The parent of this save: the step that this trainer saved or restored last,
  // as in SaveResult::version or StepRecord::version. Tables that are given
  // with their changes are saved as delta runs on top of it. It must be
  // committed, not quarantined, not after `step`, and the newest, unless
  // `abandoned` says what happens to those after it. If unset, all tables are
  // saved whole. Default: unset.
  std::optional<Version> parent = std::nullopt;
  Abandoned abandoned = Abandoned::kRefuse;

  // The time at which the save began, since 1970, UTC, at least 0; the record's
  // save_micros count from it. Default: the clock of the store, at Begin.
  std::optional<int64_t> begun_at_micros = std::nullopt;
};

// The description of a save that is known once all ranks have staged.
struct PublishSpec {
  Metrics metrics = {};             // at most kMaxMetrics
  UserMetadata user_metadata = {};  // at most kMaxMetadataBytes in all
  bool ephemeral = false;

  // Bounds over which SaveResult::base_due_reason is set.
  StoreOptions::ChainBounds bounds = {};

  // Steps that are removed in the same write batch, because retention says so.
  // Publish returns NotFound for an unknown one and FailedPrecondition for a
  // pinned one, and then publishes nothing.
  std::vector<int64_t> retire = {};

  // The committed_at_micros of the record, since 1970, UTC, at least
  // 0. Default: the clock of the store, at Publish.
  std::optional<int64_t> committed_at_micros = std::nullopt;
};

struct ReadOptions {
  // Called with the bytes that are done so far and in all, from any thread, one
  // call at a time.
  using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

  // The number of threads of one call. More than there are cores keep the disk
  // busy: each reads, and then checks and hands on what it read. At least 1.
  // Default: 16.
  int threads = 16;

  // The bytes that are read at a time of each stream: at most 2 MiB, and at
  // least a page, however little is asked for. Default: 2 MiB.
  uint64_t readahead_bytes = uint64_t{2} << 20;
};

struct FoldOptions {
  // The number of workers that merge and write, each a range of slices. At
  // least 1. Default: 4.
  int threads = 4;

  // The same as in ReadOptions.
  uint64_t readahead_bytes = uint64_t{2} << 20;

  // Called often, from all workers; if it returns true, the fold ends with
  // Cancelled. What is done so far is kept, and the next Fold of the step goes
  // on from there.
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
