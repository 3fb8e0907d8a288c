// The owner's state, shared by store.cc, publish.cc, publish_check.cc and
// sweep.cc; internal.
#ifndef CKPTDB_DB_STORE_STORE_IMPL_H_
#define CKPTDB_DB_STORE_STORE_IMPL_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/base/call_gate.h"
#include "ckptdb/db/base/exit_task.h"
#include "ckptdb/db/disk/environment.h"
#include "ckptdb/db/disk/spare_space.h"
#include "ckptdb/db/fold/fold_parts.h"
#include "ckptdb/db/meta/borrowed.h"
#include "ckptdb/db/meta/catalog.h"
#include "ckptdb/db/meta/posts.h"
#include "ckptdb/db/rocks/database.h"
#include "ckptdb/db/rocks/owner_lock.h"
#include "ckptdb/db/store.h"

namespace ckptdb {

namespace internal {

// Room for a change of records besides what is in its batch: the MANIFEST, new
// files, the blocks that they end in.
inline constexpr uint64_t kRecordOverhead = uint64_t{256} << 10;
// An entry goes to the log, to the memory table's file, and to a compaction.
inline constexpr uint64_t kBatchCopies = 3;
// Room for a commit besides its entries.
inline constexpr uint64_t kBatchOverhead = uint64_t{1} << 20;

// InvalidArgument for too many, and for names that cannot be stored.
absl::Status CheckMetrics(const Metrics& metrics);
// InvalidArgument for too many bytes, and for names that cannot be stored.
absl::Status CheckUserMetadata(const UserMetadata& metadata);

}  // namespace internal

class Store::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Open(
      absl::string_view path, const StoreOptions& options);
  ~Impl();

  // Of the caller's calls, each of which goes through it.
  internal::CallGate& gate() { return gate_; }
  absl::Status Close();

  const std::string& path() const { return path_; }
  std::vector<std::string> BadFiles() const {
    const internal::CorruptTables& bad = database_->corrupt_tables();
    return {bad.begin(), bad.end()};
  }
  const std::string& uuid() const { return uuid_; }

  // publish.cc
  // `sync`: the attempt's record is durable on return.
  absl::StatusOr<SaveHandle> Begin(const SaveSpec& spec, bool sync);
  absl::StatusOr<SaveResult> Publish(const Version& version,
                                     absl::Span<const StagedRank> ranks,
                                     const PublishSpec& spec);
  absl::Status Abandon(const Version& version);
  absl::StatusOr<SaveResult> Save(const SaveSpec& spec, const RankState& state,
                                  const PublishSpec& publish,
                                  const StageOptions& stage);

  // store.cc
  std::vector<StepRecord> Steps() const;
  StepChanges ChangedSteps(uint64_t since) const;
  void VisitSteps(absl::FunctionRef<void(const StepRecord&)> visit) const;
  bool VisitStep(int64_t step,
                 absl::FunctionRef<void(const StepRecord&)> visit) const;
  absl::StatusOr<StepRecord> FindStep(int64_t step) const;
  absl::StatusOr<StepRecord> Latest() const;
  // `loaded`, when not null, is set to the reader that the result wraps. It is
  // for calls of the store itself: closing waits for the end of that call, and
  // is not refused as it is for a caller's reader.
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(
      int64_t step, const StepReader::Impl** loaded = nullptr);
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to);
  absl::Status Delete(int64_t step);
  // What `change` makes of the step's record; what LineageDigest covers stays.
  // `change` sees the record as no other change can alter it, and may refuse.
  // Whether it may use the space that is set aside for what frees some.
  enum class Spare { kKeep, kUse };
  absl::Status ChangeRecord(
      int64_t step, const std::function<absl::Status(StepRecord*)>& change,
      Spare spare = Spare::kKeep);
  absl::Status SetFlag(int64_t step, bool StepRecord::*flag, bool value,
                       Spare spare = Spare::kKeep);
  absl::Status AddMetrics(int64_t step, const Metrics& metrics);
  absl::Status SetUserMetadata(const UserMetadata& metadata);
  UserMetadata user_metadata() const;

  // take_posts.cc
  absl::Status TakePosts();
  std::vector<UnsweptEntry> posts_passed_over() const;

  // evaluations.cc
  absl::Status SaveEvaluation(int64_t step, absl::string_view evaluation,
                              absl::string_view group,
                              absl::Span<const EvaluationPart> ranks);
  absl::StatusOr<std::optional<EvaluationRecord>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank);
  absl::StatusOr<std::vector<StoredEvaluation>> ListEvaluations(int64_t step);
  absl::Status DeleteEvaluations(absl::Span<const int64_t> steps);

  // fold.cc
  absl::StatusOr<FoldResult> Fold(int64_t step, const FoldOptions& options);

  // sweep.cc
  absl::StatusOr<SweepResult> Sweep();
  absl::Status sweep_status() const;
  std::vector<UnsweptEntry> unswept() const;
  absl::StatusOr<Usage> GetUsage();

 private:
  // A save in progress.
  struct Progress {
    SaveSpec spec;
    int64_t begun_at_micros = 0;
    StepRecord parent;                  // version of attempt 0: none
    std::shared_ptr<void> parent_hold;  // keeps what stagers may refer to
  };
  // What a version holds of a table, over all its ranks.
  struct TableRun {
    Item item;  // of one of them
    uint64_t stored_bytes = 0;
    std::set<Version> data;  // which have the bytes
  };
  using TableRuns = std::map<std::string, TableRun>;
  // What a publish is about to make true.
  struct Commit {
    StepRecord step;
    StepRecord step_parent;  // version of attempt 0: none
    std::vector<RankRecord> ranks;
    std::vector<std::string> rank_bytes;  // by rank
    std::vector<std::string> files;
    std::vector<const StagedRank*> staged;
    uint64_t inline_bytes = 0;
    std::vector<StepRecord> retired;
    std::vector<int64_t> removed_steps;
    // Keys and values of the other records. They are encoded, and so checked,
    // before anything is ingested.
    std::vector<std::pair<std::string, std::string>> records;
  };
  // A step as it was found, and what keeps all that it needs.
  struct HeldStep {
    StepRecord record;
    std::shared_ptr<void> hold;
  };
  // What must stay: versions as a whole, and items of others.
  struct Marks {
    std::map<uint32_t, AttemptRecord> attempts;  // all
    std::set<Version> whole;                     // needed as a whole
    std::set<Version> held;                      // by a call of this process
    std::set<Version> leased;                    // by a reader
    // Items that are needed of versions that are not needed as a whole.
    std::map<Version, std::map<std::string, Placement>> items;
  };
  struct Garbage {
    std::vector<Version> versions;
    std::vector<Version> quarantined;
    // Key ranges of bulk that nothing refers to, in versions that something
    // else refers to.
    std::vector<std::pair<std::string, std::string>> gaps;
    bool leased = false;  // some of it waits for a lease to end
    std::vector<UnsweptEntry> unswept;
  };

  Impl(absl::string_view path, const StoreOptions& options);

  absl::Status OpenFolder();
  absl::Status CheckRoomToOpen(rocksdb::FileSystem* files) const;
  // As another left it; NotFound when there is none. `bad`: around what tables
  // it is to be opened.
  absl::StatusOr<internal::Catalog> ReadDatabase(
      internal::CorruptTables* bad) const;
  absl::Status OpenDatabase();
  absl::Status WhyNotOpen(const absl::Status& status) const;
  // With the gate closed. Nothing but the destructor may follow.
  absl::Status ShutDown();
  void CloseAtExit();
  void StopSweeper();
  size_t OpenReaders() const;
  absl::Status NewRoot();
  absl::Status WriteRoot(const RootRecord& root);
  // ResourceExhausted unless `needed` bytes are free.
  absl::Status CheckRoom(uint64_t needed, Spare spare = Spare::kKeep) const;
  // For a batch of records.
  absl::Status CheckRoomFor(const rocksdb::WriteBatch& batch,
                            Spare spare = Spare::kKeep) const;
  void SetSpareAside() const;
  // Changes of records, durable on return, also if the log is damaged later.
  absl::Status WriteDurably(rocksdb::WriteBatch* batch);
  // Internal when the hook throws.
  absl::Status Pass(absl::string_view point) const;

  // Keeps these versions from the sweep until the result is gone.
  std::shared_ptr<void> Hold(std::vector<Version> versions,
                             bool by_reader = false);
  bool LetGo(const std::vector<Version>& versions);
  absl::StatusOr<HeldStep> HoldStep(int64_t step);
  absl::Status Retire(const StepRecord& record, rocksdb::WriteBatch* batch);
  // Of what only memory knows of a version that is no step any more.
  void NoteRetired(const StepRecord& record);

  // take_posts.cc
  void PassOver(const std::string& path, absl::string_view reason);
  absl::Status TakePost(const Post& post);
  absl::Status TakeFound(const internal::FoundPost& found);

  // publish.cc
  absl::Status CheckSpec(const SaveSpec& spec) const;
  absl::Status CheckFree(const SaveSpec& spec) const;
  absl::StatusOr<AttemptRecord> StartProgress(const SaveSpec& spec);
  bool DropProgress(const Version& version);
  absl::Status NotInProgress(const Version& version) const;
  absl::StatusOr<SaveHandle> RecordAttempt(const AttemptRecord& attempt,
                                           const SaveSpec& spec, bool sync);
  absl::StatusOr<std::vector<Ticket>> MakeTickets(
      const Version& version, const SaveSpec& spec,
      const StepRecord& parent) const;
  absl::StatusOr<Commit> Check(const Version& version, const Progress& progress,
                               absl::Span<const StagedRank> ranks,
                               const PublishSpec& spec);
  absl::Status CheckStaged(const Version& version, const Progress& progress,
                           const StagedRank& staged) const;
  absl::Status CheckFiles(const StagedRank& staged) const;
  // Of the entries of the commit's write batch, about.
  static uint64_t BatchBytes(const Commit& commit);
  absl::Status AddRank(const StagedRank& staged, Commit* commit) const;
  absl::Status AddRetired(const Progress& progress, const PublishSpec& spec,
                          Commit* commit) const;
  void FillStep(const Version& version, const Progress& progress,
                const PublishSpec& spec, Commit* commit) const;
  static absl::Status AddRecords(Commit* commit);
  // publish_chain.cc
  static TableRuns RunsOf(const std::vector<RankRecord>& ranks);
  absl::StatusOr<std::shared_ptr<const TableRuns>> LoadRuns(
      const StepRecord& record);
  absl::Status AddParent(const Progress& progress, Commit* commit) const;
  absl::Status AddChain(const Progress& progress, Commit* commit);
  absl::StatusOr<size_t> AddOldRuns(const Item& table,
                                    const std::vector<StepRecord>& chain,
                                    std::set<Version>* data, StepRecord* step);
  absl::Status ExtendChain(const Progress& progress, const TableRuns& own,
                           Commit* commit);
  // fold.cc
  static bool IsFoldOf(const AttemptRecord& attempt, const StepRecord& step);
  absl::StatusOr<FoldResult> FoldOpened(const StepReader::Impl& step,
                                        const FoldOptions& options);
  // Aborted when it is a step no more, which explains whatever failed.
  absl::Status CheckStillStep(const Version& version) const;
  absl::StatusOr<Version> BeginFold(const StepRecord& step);
  absl::StatusOr<FoldResult> PublishFold(const Version& from, const Version& to,
                                         const internal::FoldParts& parts,
                                         FoldResult result);
  static absl::Status FillFolded(const Version& version, Commit* commit);
  absl::Status FoldNewest();

  // publish.cc
  // Why a new base is due; empty when it is not.
  static std::string BaseDue(const StepRecord& step, const ChainBounds& bounds);
  // The attempt and the counter of the root.
  absl::Status WriteAttempt(const AttemptRecord& attempt, bool sync);
  // 3b to 3d.
  absl::Status WriteOut(const Commit& commit);
  absl::Status WriteCommit(const Commit& commit);
  void Acknowledge(Commit commit);

  // sweep.cc
  void SweepInBackground();
  void RequestSweep();
  absl::StatusOr<SweepResult> SweepOnce(bool thorough);
  void MarkSteps(Marks* marks);
  absl::StatusOr<Garbage> Mark();
  void CollectGarbage(const Marks& marks, Garbage* garbage);
  absl::Status FlushRetirements();
  void NoteHeldGarbage(const std::vector<Version>& versions);
  void MarkBorrowed(Marks* marks);
  absl::StatusOr<std::vector<internal::BorrowedItem>> FindBorrowed(
      const StepRecord& step);
  absl::Status Free(const Garbage& garbage);
  absl::Status Forget(const Garbage& garbage);
  absl::Status CompactAway(const std::vector<Version>& versions,
                           SweepResult* result);
  bool MayWriteStaging(uint32_t attempt) const;
  // What cannot be removed, or is nothing of the store's, is left.
  void CleanStaging(std::vector<UnsweptEntry>* unswept);
  void CleanTemporaries(const std::string& folder,
                        const std::function<bool(absl::string_view)>& is_own,
                        std::vector<UnsweptEntry>* unswept);

  const std::string path_;
  const StoreOptions options_;
  const std::shared_ptr<Environment> environment_;
  const internal::SpareSpace spare_;
  std::shared_ptr<internal::OwnerLock> lock_;
  std::unique_ptr<internal::Database> database_;
  std::string uuid_;

  // One change at a time; never taken while catalog_mutex_ is held.
  std::mutex change_mutex_;
  // Of what follows.
  mutable std::mutex catalog_mutex_;
  internal::Catalog catalog_;
  std::multiset<Version> holds_;
  size_t readers_ = 0;  // StepReaders and ChangeReaders that have some
  std::map<uint32_t, Progress> progress_;  // goes before holds_, it has some
  std::map<Version, std::vector<internal::BorrowedItem>> borrowed_;
  std::map<Version, std::shared_ptr<const TableRuns>> runs_;
  bool unflushed_ = false;          // a retirement is in the log only
  std::set<Version> held_garbage_;  // that a sweep has left for holds alone
  // The attempt of the fold that is writing, its step deleted or not.
  std::optional<Version> folding_;

  // One look at posts at a time; taken before change_mutex_.
  mutable std::mutex posts_mutex_;
  std::vector<UnsweptEntry> passed_over_;
  // One fold at a time; taken before all others.
  std::mutex fold_mutex_;
  // One sweep at a time; taken before the others.
  std::mutex sweep_mutex_;
  // Of what follows; taken last.
  mutable std::mutex sweeper_mutex_;
  std::condition_variable sweeper_wakes_;
  bool sweep_requested_ = false;
  bool leased_garbage_ = false;  // some waits for leases to end
  bool stop_ = false;
  absl::Status sweep_status_;
  std::vector<UnsweptEntry> unswept_;  // of the last sweep
  std::thread sweeper_;

  internal::CallGate gate_;
  std::unique_ptr<internal::ExitTask> exit_task_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_STORE_IMPL_H_
