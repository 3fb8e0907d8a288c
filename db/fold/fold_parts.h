// Merges a chain in parts that are finished and kept one by one; internal to
// db/.
#ifndef CKPTDB_DB_FOLD_FOLD_PARTS_H_
#define CKPTDB_DB_FOLD_FOLD_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckptdb/db/base/mutex.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/read/step_reader_impl.h"
#include "ckptdb/db/read/table_runs.h"
#include "ckptdb/db/rocks/guarded_file_system.h"
#include "ckptdb/db/stage/segments.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

struct FoldTarget {
  std::string store;
  std::string uuid;
  Version version;  // the attempt under which it is staged
  std::shared_ptr<GuardedFileSystem> files;
  bool direct_writes = false;
};

// Stages the base runs that the chain of a step merges to. The parts are the
// same whenever the step is the same. Each part that is done has a note beside
// its files, so that an interrupted fold can be resumed.
class FoldParts {
 public:
  FoldParts(const StepReader::Impl& step, FoldTarget target,
            const FoldOptions& options);

  // Plans the parts, and does those that are not done. Returns Cancelled, or an
  // error of reading or writing files.
  absl::Status Run();

  // Return the rank records of the folded step, and the paths of all files.
  std::vector<StepRecord::Rank> Ranks() const;
  std::vector<std::string> Files() const;

  uint64_t count() const { return parts_.size(); }
  uint64_t resumed() const { return resumed_; }

 private:
  struct Table {
    std::string name;
    std::vector<RankItem> runs;
  };
  struct Part {
    const Table* table;
    uint32_t rank;
    RunGroup group;
    internal::StagedRecord staged;  // this part alone, once it is done
    Item item;
  };

  absl::Status Plan();
  absl::Status PlanTable(const Table& table);
  std::string Folder(uint32_t rank) const;
  std::string NotePath(size_t part) const;
  Item TemplateOf(const Part& part) const;
  std::optional<internal::StagedRecord> ReadNote(size_t part) const;
  bool HasFiles(const internal::StagedRecord& staged) const;
  absl::Status DoPart(size_t part);
  absl::Status MergePart(size_t index, class RunWriter* writer);
  absl::Status Advance(uint64_t bytes);
  Item ItemOf(const Table& table, uint32_t rank) const;

  const StepReader::Impl& step_;
  const FoldTarget target_;
  const FoldOptions& options_;
  std::unique_ptr<rocksdb::Env> env_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Part> parts_;  // by table, rank and slices
  uint64_t resumed_ = 0;
  Mutex mutex_;
  uint64_t done_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t all_bytes_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_FOLD_FOLD_PARTS_H_
