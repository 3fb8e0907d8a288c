// SPDX-License-Identifier: Apache-2.0
// Options of a store and of its calls.
//
// Functions and objects of the caller should throw nothing. If one throws, on
// any thread, the call it was part of returns Internal with its name and the
// exception's message. std::bad_alloc, even from the library itself, becomes
// ResourceExhausted. No exception leaves a call that returns a status.
#ifndef CKPTDB_DB_OPTIONS_H_
#define CKPTDB_DB_OPTIONS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb {
namespace internal {
// The file system and the clock under a store, which tests of the library
// replace. Null stands for the machine's own.
class Environment;
}  // namespace internal

// Receives a store's diagnostic messages and a manager's warnings.
//
//   class ToMyLog : public ckptdb::Logger {
//     void Log(Severity severity, absl::string_view message) override {
//       my_log(severity, message);
//     }
//   };
//   ckptdb::StoreOptions options;
//   options.logger = std::make_shared<ToMyLog>();
class Logger {
 public:
  enum class Severity { kInfo, kWarning, kError };

  virtual ~Logger() = default;

  // Receives one message: a line without a newline. Several threads may call it
  // at once, even while the store holds locks: it must not call the store, and
  // should return quickly. Exceptions it throws are dropped.
  virtual void Log(Severity severity, absl::string_view message) = 0;
};

// The payload of Store::Open's error if the store is already open for writing:
// the holder's pid and host. I/O errors, also Unavailable, have none.
inline constexpr char kHolderPayload[] = "ckptdb/holder";

struct StoreOptions {
  // Bounds beyond which a full save is due, which the store only reports.
  struct ChainBounds {
    // The maximum number of deltas after the base; each costs a restore seeks.
    // Default: 50.
    uint64_t max_deltas = 50;

    // The maximum stored bytes of delta runs relative to those of the base
    // runs; a restore reads both. At least 0. Default: 1.0.
    double max_delta_ratio = 1.0;
  };

  // Creates the store if the folder holds none. Default: true.
  bool create_if_missing = true;

  // Modes of created folders and files. They must include 0700 and 0600,
  // respectively, and be at most 07777. Default: 0700 and 0600: other users
  // cannot read the weights.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;

  // Free space that saves leave for the commit and other users of the disk. A
  // save that would use it is refused before it starts. Default: 64 MiB.
  uint64_t reserve_bytes = uint64_t{64} << 20;

  // Space set aside in the file SPARE, and used on a full disk to open the
  // store, remove steps and sweep. Removing a step usually writes less than 100
  // KiB, and at most 8 MiB. 0 sets nothing aside. Default: 8 MiB.
  uint64_t spare_bytes = uint64_t{8} << 20;

  // Reads tables around the page cache if the file system supports it, which
  // takes a third of the CPU time and leaves the cache to the trainer. If
  // false, processes of a machine that read the same step share the cache.
  // Default: true.
  bool direct_reads = true;

  // Folds the newest step in the background when its chain exceeds
  // `fold_bounds`. Default: false.
  bool background_fold = false;
  ChainBounds fold_bounds = {};

  // Removes unreferenced data on a background thread, at open and after every
  // commit and deletion. If false, only Sweep() does. Default: true.
  bool background_sweep = true;

  // Receives RocksDB's warnings. If null, they only appear in db/LOG and
  // db/LOG.old, at most 1 MiB each, space permitting. Default: null.
  std::shared_ptr<Logger> logger = {};

  // Called with the name of each point of kCrashPoints on the thread that
  // passes it, for tests and drills. If it throws, the call returns Internal;
  // if a step was already committed, the store is unusable until reopened, and
  // then contains the step.
  std::function<void(absl::string_view point)> on_point = {};
  std::shared_ptr<internal::Environment> environment = {};
};

// The longest lease: a week. A sweep removes a lease that ends more than
// kMaxClockSkewMs later, because a wrong clock wrote it.
inline constexpr int64_t kMaxLeaseMs = int64_t{7} * 24 * 3600 * 1000;
inline constexpr int64_t kMaxClockSkewMs = int64_t{24} * 3600 * 1000;

struct ReaderOptions {
  // Whether a reader asks the owner to keep the data it reads, by a file in the
  // store's folder `leases`.
  enum class LeaseMode {
    kRequired,       // a step that cannot be leased is not opened
    kWherePossible,  // leases where it can write
    kNone,           // writes nothing
  };

  // A reader of a read-only mount, of another user's store or of a full disk
  // can write no lease. The owner may then remove a step that is being read:
  // the read returns Aborted, never wrong data. Default: kWherePossible.
  LeaseMode leases = LeaseMode::kWherePossible;

  // How long a lease lasts unless renewed, and so how long the owner keeps the
  // steps of a dead reader. At most kMaxLeaseMs. Default: 60 s.
  int64_t lease_ms = 60'000;

  bool direct_reads = true;  // as in StoreOptions

  std::shared_ptr<internal::Environment> environment = {};
};

struct StageOptions {
  // Threads that write files. They wait for the disk half of the time, so more
  // threads than cores help. Each takes about 6 MiB of memory, and its file
  // adds some milliseconds to the commit. At least 1. Default: 8.
  int threads = 8;

  // Writes around the page cache if the file system supports it, which takes
  // less than half of the CPU time and leaves the cache to the trainer.
  // Default: true.
  bool direct_writes = true;

  // Stores a tensor again even if the parent contains the same bytes, so that
  // the parent's can be freed. Default: false.
  bool rewrite_unchanged = false;

  // Same as in StoreOptions. Store::Save and a manager use their store's
  // options instead, except for an on_point that is set here.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;
  uint64_t reserve_bytes = uint64_t{64} << 20;
  std::function<void(absl::string_view point)> on_point = {};
  std::shared_ptr<internal::Environment> environment = {};
};

// The part of a save's description that is fixed at Begin.
struct SaveSpec {
  // What happens to steps saved after the parent. They belong to a run that was
  // abandoned when an older step was restored.
  enum class Abandoned {
    kRefuse,  // the save returns FailedPrecondition
    kKeep,    // they stay
    kRemove,  // they are removed in the same write batch, except pinned ones
  };

  int64_t step = 0;

  // Replaces an existing step, which stays until the new one is committed. If
  // false, an existing step causes AlreadyExists. A pinned step causes
  // FailedPrecondition unless it is quarantined; the new step is then pinned.
  // Default: false.
  bool overwrite = false;

  // The number of ranks that stage. Default: 1.
  uint32_t world_size = 1;

  // Bounds of tables sharded by slices: rank r has only rows of slices
  // [slice_bounds[r], slice_bounds[r + 1]), which staging checks. See
  // EvenSliceBounds. If not empty, tables without a declared sharding are
  // sharded by slices. Default: empty.
  std::vector<uint32_t> slice_bounds = {};

  // The step that this trainer saved or restored last: SaveResult::version or
  // StepRecord::version. Tables given with their changes are saved as delta
  // runs on top of it. It must be committed, not quarantined, not after `step`,
  // and the newest unless `abandoned` allows later ones. If unset, all tables
  // are saved in full. Default: unset.
  std::optional<Version> parent = std::nullopt;
  Abandoned abandoned = Abandoned::kRefuse;

  // When the save began, since 1970, UTC, at least 0; the record's save_micros
  // count from it. Default: the store's clock, at Begin.
  std::optional<int64_t> begun_at_micros = std::nullopt;
};

// The part of a save's description that is known once all ranks have staged.
struct PublishSpec {
  Metrics metrics = {};             // at most kMaxMetrics
  UserMetadata user_metadata = {};  // at most kMaxMetadataBytes in all
  bool ephemeral = false;

  // Bounds beyond which SaveResult::base_due_reason is set.
  StoreOptions::ChainBounds bounds = {};

  // Steps that retention removes in the same write batch. Publish returns
  // NotFound for an unknown one and FailedPrecondition for a pinned one, and
  // then publishes nothing.
  std::vector<int64_t> retire = {};

  // The record's committed_at_micros, since 1970, UTC, at least 0. Default: the
  // store's clock, at Publish.
  std::optional<int64_t> committed_at_micros = std::nullopt;

  // Publish calls Store::TakePosts first. Set to false if the caller has just
  // called it. Default: true.
  bool take_posts = true;
};

struct ReadOptions {
  // Threads of one call; each reads, checks and delivers data. More threads
  // than cores keep the disk busy. At least 1. Default: 16.
  int threads = 16;

  // Bytes read at a time from each stream: from a page to 2 MiB. Default: 2
  // MiB.
  uint64_t readahead_bytes = uint64_t{2} << 20;
};

struct FoldOptions {
  // Threads that merge and write, each a range of slices. At least 1. Default:
  // 4.
  int threads = 4;

  uint64_t readahead_bytes = uint64_t{2} << 20;  // as in ReadOptions

  // Called often, from all threads. If it returns true, the fold ends with
  // Cancelled, and the next Fold of the step resumes it.
  std::function<bool()> cancelled = {};

  // Called with the bytes done and in total, on any thread, one call at a time.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = {};
};

// The named points of a save and a sweep, in the order in which they are
// passed. A process may die at any of them; tests loop over all.
namespace point {
// 1. Begin: the attempt record is durable.
inline constexpr absl::string_view kBegun = "begin:recorded";
// 2. Stage: the first file is being written; all files are durable.
inline constexpr absl::string_view kStaging = "stage:writing";
inline constexpr absl::string_view kStaged = "stage:done";
// 3. Publish: (a) all is checked; (b) the files are in the database; (c) the
// batch is durable, the step exists; (d) it is flushed, and acknowledged next.
inline constexpr absl::string_view kChecked = "publish:checked";
inline constexpr absl::string_view kIngested = "publish:ingested";
inline constexpr absl::string_view kCommitted = "publish:committed";
inline constexpr absl::string_view kFlushed = "publish:flushed";
// 4. Sweep: garbage is known; its files are deleted; its records are deleted.
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
