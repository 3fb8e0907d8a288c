// SPDX-License-Identifier: Apache-2.0
// A store's committed steps in an object store: ships them there, lists them,
// and makes stores of them on machines that never saw the first one.
//
//   CKPTDB_ASSIGN_OR_RETURN(
//       const auto remote, OpenObjectStore("file:///mnt/backup/ctr"));
//   CKPTDB_RETURN_IF_ERROR(PushStore("checkpoints", remote.get()).status());
//   CKPTDB_RETURN_IF_ERROR(
//       FetchStore(remote.get(), "checkpoints-2").status());
//
// docs/remote.md describes the objects and what is guaranteed. All calls are
// synchronous and thread-safe, and return the errors of the object store.
#ifndef CKPTDB_REMOTE_REMOTE_STORE_H_
#define CKPTDB_REMOTE_REMOTE_STORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "manager/policies.h"
#include "remote/object_store.h"
#include "schema/types.h"

namespace ckptdb {

// The points of a push that PushOptions::on_point passes, in their order. A
// process may die at any of them.
namespace point {
// The remote has this owner, and refuses commits of earlier ones.
inline constexpr absl::string_view kShipOwned = "ship:owned";
// All data objects of a version are there; its version object is there.
inline constexpr absl::string_view kShipData = "ship:data";
inline constexpr absl::string_view kShipVersion = "ship:version";
// The catalog names the step: it can be fetched.
inline constexpr absl::string_view kShipCommitted = "ship:committed";
}  // namespace point

inline constexpr std::array<absl::string_view, 4> kShipPoints = {
    point::kShipOwned, point::kShipData, point::kShipVersion,
    point::kShipCommitted};

struct PushOptions {
  // Replaces what the remote has if it is ahead of the store or differs from
  // it. The replaced steps can no longer be listed or fetched.
  bool take_over = false;
  // Polled between objects and while files are read; the call then returns
  // Cancelled. Give the same function to RemoteOptions.
  std::function<bool()> cancelled = {};
  // Called with the bytes of data objects, by one thread at a time.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = {};
  // Called after the commit of each step.
  std::function<void(const Version& version)> on_step = {};
  // Called at each of kShipPoints, for tests.
  std::function<void(absl::string_view point)> on_point = {};
};

struct PushResult {
  std::string store_uuid;
  uint64_t catalog = 0;          // the number of the newest catalog
  uint64_t epoch = 0;            // increases with each new owner
  std::vector<int64_t> shipped;  // steps, in the order of their commits
  // Steps that could not be read, and why; the next push tries them again.
  std::vector<std::pair<int64_t, std::string>> skipped;
  uint64_t data_files = 0;  // uploaded
  uint64_t data_bytes = 0;
};

// Ships each step that the store has committed and the remote does not have,
// oldest first, and steps whose metrics or flags have changed. Each step
// appears in the remote by one conditional put. Steps that were deleted from
// the store stay in the remote: CollectRemote removes steps there.
//
// Works beside the store's owner, and writes only a lease. The call becomes
// the owner of the remote; another push that is still running is fenced: it
// returns Aborted and changes nothing more.
//
// Returns NotFound without a store; FailedPrecondition if the remote has
// another store, is ahead of this one, or if the service ignores conditions of
// a put; Aborted if another push became the owner meanwhile; and DataLoss if
// the remote is damaged. An interrupted call leaves a remote in which each step
// is complete.
absl::StatusOr<PushResult> PushStore(absl::string_view store,
                                     ObjectStore* remote,
                                     const PushOptions& options = {});

// The progress of the manager or StepShipper that ships a store, from the file
// SHIPPED in its folder.
struct ShipNote {
  std::string url;                // of the object store, without credentials
  int64_t written_at_micros = 0;  // when the rest has changed
  // Steps of attempts up to this one were shipped, except `skipped`.
  uint32_t last_attempt = 0;
  std::vector<int64_t> skipped = {};  // steps that cannot be read
  std::string error = {};  // of the last attempt; empty if it succeeded
};

// Returns nothing if nobody ships the store in the background or `store` is a
// URL, and DataLoss if the note is damaged.
absl::StatusOr<std::optional<ShipNote>> ReadShipNote(absl::string_view store);

struct RemoteStep {
  Version version;
  int64_t committed_at_micros = 0;  // since 1970, UTC
  StepRecord::Kind kind = StepRecord::Kind::kFull;
  bool pinned = false;
  bool ephemeral = false;
  bool quarantined = false;
  // The latest step was not saved on top of it, but on top of an older one.
  // Found with ListOptions::abandoned.
  bool abandoned = false;
  uint64_t versions = 1;     // that a fetch downloads, including its own
  uint64_t own_bytes = 0;    // uploaded for this version alone
  uint64_t fetch_bytes = 0;  // that a fetch downloads
};

struct RemoteContent {
  std::string store_uuid;
  uint64_t catalog = 0;
  uint64_t epoch = 0;
  int64_t written_at_micros = 0;  // by the clock of the catalog's writer
  std::vector<RemoteStep> steps;  // by step
  int64_t latest_step = -1;       // most recently saved; -1 without a step
  uint64_t bytes = 0;             // that these steps need
  uint64_t dropped_bytes = 0;     // that CollectRemote will delete
};

struct ListOptions {
  // Finds abandoned steps, with another request; none if the latest step is
  // damaged.
  bool abandoned = false;
};

// Lists the steps of the newest catalog, with two requests. Returns NotFound
// if nothing was shipped.
absl::StatusOr<RemoteContent> ListRemote(ObjectStore* remote,
                                         const ListOptions& options = {});

struct FetchOptions {
  std::optional<int64_t> step = {};  // Default: the most recently saved.
  bool all = false;                  // fetches all steps instead
  // Adds missing steps to a store of the same origin, such as a fetched one.
  // Creates a missing store.
  bool update = false;
  // With `update`: then removes all steps older than the newest `keep` that are
  // not quarantined, except pinned ones; with `all`, fetches none of the older
  // ones. Default: removes none.
  std::optional<uint64_t> keep = {};
  // Leaves out all but these parts, unless both are empty: tables, and tensors
  // and blobs, by names or patterns such as "mlp.*".
  std::vector<std::string> tables = {};
  std::vector<std::string> items = {};
  std::vector<std::string> slots = {};  // of these tables; empty: all
  SliceRange slices = {};               // of these tables
  int connections = 8;                  // ranges of up to 8 MiB read at a time
  std::function<bool()> cancelled = {};
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = {};
  // Called at each of kFetchPoints of db/internal/crash_points.h, for tests.
  std::function<void(absl::string_view point)> on_point = {};
};

struct FetchResult {
  std::string store_uuid;
  std::vector<int64_t> steps;    // that were added
  std::vector<int64_t> revised;  // that got newer metrics or flags
  std::vector<int64_t> removed;  // by FetchOptions::keep
  uint64_t data_files = 0;       // downloaded, without those of an earlier call
  uint64_t data_bytes = 0;
};

// Creates a store at `to` with one step, or with all. It has the uuid of the
// store that was shipped, and appears only when it is complete and the hash of
// each object was compared. Downloads of an interrupted call stay in
// TO.unfinished, and the next call continues with them.
//
// With `update`, downloads only data files of versions that the store lacks,
// and commits each step in one durable batch, oldest first. So readers of the
// store see complete steps, and a killed process leaves the store as it was or
// with the step. The call owns the store while it changes it. It replaces steps
// that the remote's owner folded or overwrote, and adds metrics, evaluations
// and flags that were shipped later; the store keeps its own pins and
// quarantines, and metrics that the remote lacks.
//
// With `tables` or `items`, downloads a data file whole if all of it is needed,
// and otherwise ranges of it, whose blocks are compared with their checksums.
// The new store is read-only: reads of other parts, Verify and OpenChanges of
// its steps, and Store::Open return FailedPrecondition with the parts.
//
// Returns NotFound if the remote lacks the step; InvalidArgument if the step
// lacks one of the parts; AlreadyExists if `to` is neither missing nor an empty
// folder, nor another store without steps, which is replaced, nor, with
// `update`, a store; Unavailable while another process fetches to it; DataLoss
// naming an object that is missing or damaged; and Aborted if the step's
// objects were deleted meanwhile: call again for a newer step. With `update`,
// also returns Unavailable if the store has another owner, and
// FailedPrecondition, changing nothing, if the store contains only parts, is
// another store, is ahead of the remote, or has a step or attempt that differs
// from the remote's because copies of the store were trained on separately.
absl::StatusOr<FetchResult> FetchStore(ObjectStore* remote,
                                       absl::string_view to,
                                       const FetchOptions& options = {});

struct VerifyRemoteOptions {
  bool data = false;  // reads all data objects; otherwise, compares their sizes
  int connections = 8;
  std::function<bool()> cancelled = {};
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = {};
};

struct VerifyRemoteResult {
  uint64_t steps = 0;
  uint64_t objects = 0;
  uint64_t read_bytes = 0;
  // What is wrong with an object, for each that is missing or damaged, and the
  // steps that need it.
  struct Damage {
    std::string key;
    std::string problem;
    std::vector<int64_t> steps;
  };
  std::vector<Damage> damage;
};

// Checks the newest catalog, all version objects and the data objects that its
// steps need.
absl::StatusOr<VerifyRemoteResult> VerifyRemote(
    ObjectStore* remote, const VerifyRemoteOptions& options = {});

struct CollectOptions {
  // Drops the steps older than the newest `keep` that are not quarantined,
  // except pinned ones. Default: drops none.
  std::optional<uint64_t> keep = {};
  // Drops the steps that a store with this retention would remove, by the
  // metrics and times in their records and this machine's clock. Reads the
  // version object of each step. Not together with `keep`. Default: drops none.
  std::optional<RetentionOptions> retention = {};
  // How long the objects of dropped steps and of interrupted uploads stay, by
  // the service's clock, for processes that still read or upload them.
  absl::Duration grace = absl::Hours(24);
  std::function<bool()> cancelled = {};
};

struct CollectResult {
  std::vector<int64_t> dropped;  // steps
  uint64_t deleted_objects = 0;
  uint64_t deleted_bytes = 0;
  uint64_t waiting_bytes = 0;  // dropped, and not older than the grace
  // An error if incomplete uploads were left, because the service cannot list
  // them or does not allow it.
  absl::Status uploads;
};

// Drops steps from the remote and deletes the objects that nothing needs. May
// run beside pushes, fetches and other collections. Returns NotFound if nothing
// was shipped, InvalidArgument for a `keep` of 0, a negative grace or a
// retention out of bounds, and Aborted if others commit too often.
absl::StatusOr<CollectResult> CollectRemote(ObjectStore* remote,
                                            const CollectOptions& options = {});

}  // namespace ckptdb

#endif  // CKPTDB_REMOTE_REMOTE_STORE_H_
