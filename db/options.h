// SPDX-License-Identifier: Apache-2.0
// Options of a store and of its calls.
//
// The caller's functions and objects should not throw. If one throws, on any
// thread, its call returns Internal with the function's name and the
// exception's message; std::bad_alloc, also from the library itself, becomes
// ResourceExhausted. No exception leaves a call that returns a status.
#ifndef CKPTDB_DB_OPTIONS_H_
#define CKPTDB_DB_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/log_severity.h"
#include "absl/strings/string_view.h"
#include "db/internal/crash_points.h"
#include "schema/types.h"

namespace ckptdb {
namespace internal {
// The file system and the clock, which tests replace. Null: the machine's.
class Environment;
}  // namespace internal

// The payload of Store::Open's Unavailable if another owner has the store open:
// its pid and host. I/O errors have none.
inline constexpr char kHolderPayload[] = "ckptdb/holder";

// The longest lease: a week. A sweep removes leases that end more than
// kMaxClockSkewMs later, because a wrong clock wrote them.
inline constexpr int64_t kMaxLeaseMs = int64_t{7} * 24 * 3600 * 1000;
inline constexpr int64_t kMaxClockSkewMs = int64_t{24} * 3600 * 1000;

// Options of Store::Open, Reader::Open and Stage, each of which ignores those
// of the others.
struct StoreOptions {
  // Bounds beyond which the store reports that a full save is due.
  struct ChainBounds {
    // Deltas after the base; each costs a restore seeks.
    uint64_t max_deltas = 50;
    // Stored bytes of delta runs relative to those of base runs; a restore
    // reads both. At least 0.
    double max_delta_ratio = 1.0;
  };

  // Whether a reader asks the owner to keep the data it reads, by a file in the
  // folder `leases`.
  enum class LeaseMode {
    kRequired,       // a step that cannot be leased is not opened
    kWherePossible,  // leases where it can write
    kNone,           // writes nothing
  };

  // Creates a missing store.
  bool create_if_missing = true;
  // Modes of created folders and files, which include 0700 and 0600,
  // respectively, and are at most 07777. By default other users cannot read the
  // weights.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;
  // Free space that saves leave to commits and other users of the disk. A save
  // that would use it is refused before it starts.
  uint64_t reserve_bytes = uint64_t{64} << 20;
  // Space set aside in the file SPARE, and used on a full disk to open the
  // store, remove steps and sweep; removing a step writes at most 8 MiB. May be
  // 0.
  uint64_t spare_bytes = uint64_t{8} << 20;
  // Removes unreferenced data in the background, at open and after every commit
  // and deletion. If false, only Sweep() does.
  bool background_sweep = true;
  // Folds the newest step in the background if it exceeds `fold_bounds`.
  bool background_fold = false;
  ChainBounds fold_bounds = {};
  // Threads with which a rank writes files, at least 1. They wait for the disk,
  // so more than cores help. Each takes about 6 MiB, and adds a file.
  int stage_threads = 8;
  // Writes around the page cache if possible, which halves the CPU time.
  bool direct_writes = true;
  // Stores a tensor even if the parent has its bytes, which can then be freed.
  bool rewrite_unchanged = false;
  // Reads tables around the page cache likewise. If false, processes of a
  // machine that read the same step share the cache.
  bool direct_reads = true;
  // Without a lease, as on a read-only mount, the owner may remove a step that
  // is being read: the read returns Aborted, never wrong data.
  LeaseMode leases = LeaseMode::kWherePossible;
  // How long a lease lasts unless renewed, and a dead reader's steps are kept.
  // At most kMaxLeaseMs.
  int64_t lease_ms = 60'000;
  // Like ReadOptions::progress, for the bytes that Stage writes.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = {};
  // Receives warnings and errors of RocksDB, and a manager's warnings: lines
  // without a newline. Several threads call it at once, even while the store
  // holds locks: it must not call the store, and its exceptions are dropped. If
  // unset, RocksDB's messages go to db/LOG and db/LOG.old, at most 1 MiB each.
  std::function<void(absl::LogSeverity severity, absl::string_view message)>
      logger = {};
  // For tests and drills: called at each point of kCrashPoints, on its thread.
  // If it throws, the call returns Internal; after a commit, the store is
  // unusable until reopened, and then contains the step.
  std::function<void(absl::string_view point)> on_point = {};
  std::shared_ptr<internal::Environment> environment = {};
};

// What a save stores, for Begin and Publish.
struct SaveSpec {
  // What happens to steps saved after the parent, by a run that was abandoned
  // when an older step was restored. Steps of other branches always stay.
  enum class Abandoned {
    kRefuse,  // the save returns FailedPrecondition
    kKeep,    // they stay
    kRemove,  // the parent's descendants are removed at commit, unless pinned
  };

  int64_t step = 0;
  // Replaces an existing step at the commit. If false, an existing step causes
  // AlreadyExists. A pinned step causes FailedPrecondition, unless it is
  // quarantined; the new step is then pinned.
  bool overwrite = false;
  // The number of ranks that stage.
  uint32_t world_size = 1;
  // Bounds of tables sharded by slices: rank r stages only rows of slices
  // [slice_bounds[r], slice_bounds[r + 1]). See EvenSliceBounds. If not empty,
  // tables without a declared sharding are sharded by slices.
  std::vector<uint32_t> slice_bounds = {};
  // The step that this trainer saved or restored last. Tables given with their
  // changes are saved as delta runs on top of it. It must be committed, not
  // quarantined, not after `step`, and the newest unless `abandoned` allows
  // later ones. If unset, all tables are saved in full.
  std::optional<Version> parent = std::nullopt;
  Abandoned abandoned = Abandoned::kRefuse;
  // When the save began, since 1970, UTC, at least 0. Default: now, at Begin.
  std::optional<int64_t> begun_at_micros = std::nullopt;
  // For Publish, which ignores the fields above.
  Metrics metrics = {};             // at most kMaxMetrics
  UserMetadata user_metadata = {};  // at most kMaxMetadataBytes in all
  // Added to rank 0's blobs, in the write batch, by name: what the owner knows
  // only now. At most kMaxPublishedBytes in all.
  std::map<std::string, std::string> blobs = {};
  bool ephemeral = false;
  // When SaveResult::base_due_reason is set.
  StoreOptions::ChainBounds bounds = {};
  // Steps that the same write batch removes. Publish returns NotFound for an
  // unknown one and FailedPrecondition for a pinned one.
  std::vector<int64_t> retire = {};
  // Since 1970, UTC, at least 0. Default: now, at Publish.
  std::optional<int64_t> committed_at_micros = std::nullopt;
  // Publish calls Store::TakePosts first.
  bool take_posts = true;
};

struct ReadOptions {
  // Threads of one call, at least 1; each reads, checks and delivers data.
  int threads = 16;
  // Bytes read at a time from each stream: from a page to 2 MiB.
  uint64_t readahead_bytes = uint64_t{2} << 20;
  // Reads, Verify and Fold call it often: on all threads, before each page or
  // chunk, and at least every few milliseconds on the calling thread while only
  // others work. It should be fast, and not return false after true. If it
  // returns true, the call ends with Cancelled: a read leaves undefined bytes
  // like any that failed, and the next Fold of the step resumes the fold.
  std::function<bool()> cancelled = {};
  // Fold, Verify, scans and reads of tensors call it, on any thread, one call
  // at a time, with bytes before codecs; `all_bytes` may be an estimate.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = {};
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_OPTIONS_H_
