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
#ifndef CKPTDB_DB_READER_H_
#define CKPTDB_DB_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/db/store.h"
#include "ckptdb/schema/types.h"

namespace ckptdb {

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
