// SPDX-License-Identifier: Apache-2.0
// A reader; internal to db/store/.
#ifndef CKPTDB_DB_STORE_READER_IMPL_H_
#define CKPTDB_DB_STORE_READER_IMPL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/base/home_process.h"
#include "db/base/mutex.h"
#include "db/base/url_stores.h"
#include "db/disk/environment.h"
#include "db/meta/catalog.h"
#include "db/meta/posts.h"
#include "db/read/step_reader_impl.h"
#include "db/reader.h"
#include "db/rocks/database.h"
#include "db/store/evaluation_records.h"
#include "db/store/post_overlay.h"
#include "db/store/reader_leases.h"
#include "schema/bytes/annotate.h"
#include "schema/records/store_parts.h"
#include "schema/status.h"

namespace ckptdb {

class Reader::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Open(
      absl::string_view path, const StoreOptions& options);

  static absl::StatusOr<std::unique_ptr<Impl>> MakeForUrl(
      absl::string_view path, const StoreOptions& options);

  const std::string& path() const { return path_; }
  const std::string& uuid() const { return uuid_; }
  const internal::HomeProcess& home() const { return home_; }

  // Like Refresh, but waits while the store is being created.
  absl::Status OpenFirst();
  absl::StatusOr<bool> IsBeingCreated() const;
  absl::Status Refresh();
  // The same after bringing the store of a URL up to date, which takes
  // requests to a service.
  absl::Status CatchUp();
  // Copies the pointer under the lock, for use without the lock: a refresh
  // replaces the database, and calls that still use the old one keep it open.
  std::vector<std::string> BadFiles() const {
    const auto opened = database();
    return {opened->corrupt_tables().begin(), opened->corrupt_tables().end()};
  }
  std::vector<StepRecord> Steps() const {
    const internal::MutexLock lock(&mutex_);
    std::vector<StepRecord> steps = catalog_.Steps();
    for (StepRecord& record : steps) Overlay(&record);
    return steps;
  }
  absl::StatusOr<StepRecord> FindStep(int64_t step) const {
    const internal::MutexLock lock(&mutex_);
    return Overlaid(catalog_.FindStep(step));
  }
  absl::StatusOr<StepRecord> Latest() const {
    const internal::MutexLock lock(&mutex_);
    return Overlaid(catalog_.Latest());
  }
  Posted FindPosted(int64_t step) const {
    const internal::MutexLock lock(&mutex_);
    const auto found = overlaid_.find(step);
    return found == overlaid_.end() ? Posted() : found->second.posted;
  }
  UserMetadata user_metadata() const {
    const internal::MutexLock lock(&mutex_);
    return catalog_.root.user_metadata;
  }
  std::string parts() const {
    const internal::MutexLock lock(&mutex_);
    const auto& parts = catalog_.root.parts;
    return parts.has_value() ? internal::Describe(*parts) : "";
  }
  absl::StatusOr<std::vector<StepRecord::Rank>> FindRanks(int64_t step) const {
    CKPTDB_ASSIGN_OR_RETURN(const FoundStep found, FindWithDatabase(step));
    return internal::Annotate(
        internal::LoadRanks(*found.database, found.record), path_);
  }
  absl::StatusOr<Usage> GetUsage(bool by_name) const;
  auto LeaseEnds(const Version& at) const { return leases_.EndsFor(at); }
  absl::StatusOr<std::optional<StepRecord::Evaluation>> FindEvaluation(
      int64_t step, absl::string_view evaluation, uint32_t rank) const {
    CKPTDB_ASSIGN_OR_RETURN(const FoundStep found, FindWithDatabase(step));
    return internal::LoadEvaluation(*found.database, found.record, evaluation,
                                    rank);
  }
  absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> ListEvaluations(
      int64_t step) const {
    CKPTDB_ASSIGN_OR_RETURN(const FoundStep found, FindWithDatabase(step));
    return internal::ListEvaluations(*found.database, found.record);
  }
  absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(int64_t step);
  absl::StatusOr<std::unique_ptr<ChangeReader>> OpenChanges(const Version& from,
                                                            int64_t to);
  absl::Status PostMetrics(int64_t step, const Metrics& metrics);
  absl::Status RequestPin(int64_t step, bool pin);
  absl::Status RequestEphemeral(int64_t step, bool ephemeral);

 private:
  Impl(absl::string_view path, const StoreOptions& options,
       std::unique_ptr<internal::UrlStore> url)
      : url_(std::move(url)),
        path_(path),
        options_(options),
        environment_(options.environment != nullptr
                         ? options.environment
                         : internal::Environment::Default()),
        leases_(path_, options, environment_) {}

  std::shared_ptr<const internal::Database> database() const {
    const internal::MutexLock lock(&mutex_);
    return database_;
  }

  // Applies the waiting posts for a step to its record.
  void Overlay(StepRecord* record) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = overlaid_.find(record->version.step);
    if (found != overlaid_.end()) *record = found->second.record;
  }
  absl::StatusOr<StepRecord> Overlaid(absl::StatusOr<StepRecord> found) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (found.ok()) Overlay(&*found);
    return internal::Annotate(std::move(found), path_);
  }
  absl::StatusOr<std::shared_ptr<const internal::Database>> OpenNewer(
      const std::shared_ptr<const internal::Database>& before,
      internal::Catalog* catalog) ABSL_EXCLUSIVE_LOCKS_REQUIRED(refresh_mutex_);

  // A step and the database that contains its record: a refresh replaces both.
  struct FoundStep {
    StepRecord record;
    std::shared_ptr<const internal::Database> database;
  };
  // Both are read under one lock, so that the record is from that database.
  absl::StatusOr<FoundStep> FindWithDatabase(int64_t step) const {
    const internal::MutexLock lock(&mutex_);
    CKPTDB_ASSIGN_OR_RETURN(StepRecord record,
                            internal::Annotate(catalog_.FindStep(step), path_));
    return FoundStep{std::move(record), database_};
  }

  // Returns the error of a call that a URL does not support; OK for a folder.
  absl::Status CheckFolder(absl::string_view doing,
                           absl::string_view remedy) const;
  int64_t NextPostMicros();
  absl::Status WritePost(int64_t step, Post post);

  template <typename Plan>
  struct Planned;
  template <typename Plan>
  using MakePlan =
      std::function<absl::StatusOr<Planned<Plan>>(const internal::Catalog&)>;
  template <typename Plan>
  struct Leased;
  template <typename Plan>
  absl::StatusOr<Planned<Plan>> PlanNow(const MakePlan<Plan>& make_plan) const;
  template <typename Plan>
  absl::StatusOr<Leased<Plan>> PlanWithLease(int64_t step,
                                             const MakePlan<Plan>& make_plan);
  template <typename Plan>
  absl::Status ExplainRemoval(int64_t step, const MakePlan<Plan>& make_plan,
                              const std::vector<Version>& versions,
                              const absl::Status& no_lease,
                              const absl::Status& status);

  const internal::HomeProcess home_;
  const std::unique_ptr<internal::UrlStore> url_;  // null for a folder
  const std::string path_;
  const StoreOptions options_;
  const std::shared_ptr<internal::Environment> environment_;
  std::string uuid_;

  // Held while the next database is opened; acquired before `mutex_`.
  internal::Mutex refresh_mutex_;
  internal::WaitingPosts waiting_ ABSL_GUARDED_BY(refresh_mutex_);
  mutable internal::Mutex mutex_;
  std::shared_ptr<const internal::Database> database_ ABSL_GUARDED_BY(mutex_);
  internal::Catalog catalog_ ABSL_GUARDED_BY(mutex_);
  // The steps that have waiting posts.
  std::map<int64_t, internal::OverlaidStep> overlaid_ ABSL_GUARDED_BY(mutex_);
  int64_t last_post_micros_ ABSL_GUARDED_BY(mutex_) = 0;

  internal::ReaderLeases leases_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_READER_IMPL_H_
