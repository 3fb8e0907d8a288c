// SPDX-License-Identifier: Apache-2.0
// Folds a chain in parts, each of which is finished and kept separately;
// internal to db/.
#ifndef CKPTDB_DB_FOLD_FOLD_PARTS_H_
#define CKPTDB_DB_FOLD_FOLD_PARTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/base/progress.h"
#include "db/fold/run_output.h"
#include "db/options.h"
#include "db/read/step_reader_impl.h"
#include "db/read/table_runs.h"
#include "db/rocks/guarded_file_system.h"
#include "db/stage/segments.h"
#include "schema/records/staged.h"
#include "schema/types.h"

namespace ckptdb::internal {

struct FoldTarget {
  std::string store;
  std::string uuid;
  Version version;  // the attempt under which it is staged
  std::shared_ptr<GuardedFileSystem> files;
  bool direct_writes = false;
  // The maximum number of files written concurrently.
  uint64_t most_files = 0;
};

// Stages the base runs that a step's chain merges to. The division into parts
// depends only on the step. Each finished part has a note next to its files, so
// that an interrupted fold can be resumed.
class FoldParts {
 public:
  FoldParts(const StepReader::Impl& step, FoldTarget target,
            const ReadOptions& options);

  // Plans the parts, and folds the unfinished ones. Returns Cancelled, or an
  // error of reading or writing files; the files of parts that were not
  // finished are then removed.
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
  // Rows of one table: all rows of a rank, or those of some slices.
  struct Stretch {
    const Table* table;
    std::vector<RunGroup> groups;  // by slices
    uint64_t bytes = 0;            // estimated
    Item item;                     // set once it is done
  };
  // The unit of work: a range of slices of a large table, or some small tables,
  // which share a file.
  struct Part {
    uint32_t rank;
    bool shares_file = false;
    std::vector<Stretch> stretches;  // by table
    internal::StagedRecord staged;   // set once it is done
    uint64_t bytes() const;
  };

  absl::Status Plan();
  void PlanTable(const Table& table, uint32_t rank);
  void AddSmall(Stretch stretch, uint32_t rank);
  std::string Folder(uint32_t rank) const;
  std::string NotePath(size_t part) const;
  std::string FilePath(size_t part) const;
  Item TemplateOf(const Table& table) const;
  bool ReadNote(size_t index);
  bool HasFiles(const internal::StagedRecord& staged) const;
  absl::Status PrepareParts(std::vector<size_t>* open);
  absl::Status DoPart(size_t part);
  void RemoveUnfinished(size_t part);
  absl::Status WriteStreams(size_t index, Part* part);
  absl::Status WriteShared(size_t index, Part* part);
  absl::Status WriteNote(size_t index, Part* part);
  absl::Status MergeStretch(uint32_t rank, bool ids,
                            absl::Span<const size_t> slots, RunOutput* output,
                            Stretch* stretch);
  SegmentWriterOptions WritingOptions(size_t files) const;
  Item ItemOf(const std::vector<const Stretch*>& stretches) const;

  const StepReader::Impl& step_;
  const FoldTarget target_;
  const ReadOptions& options_;
  Progress progress_;
  std::unique_ptr<rocksdb::Env> env_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Part> parts_;  // by rank, table and slices
  uint64_t resumed_ = 0;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_FOLD_FOLD_PARTS_H_
