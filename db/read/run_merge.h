// SPDX-License-Identifier: Apache-2.0
// Merges several runs of a table; each id is emitted once, from the newest run
// that contains it. Internal to db/.
#ifndef CKPTDB_DB_READ_RUN_MERGE_H_
#define CKPTDB_DB_READ_RUN_MERGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "db/read/run_cursor.h"
#include "db/read/table_runs.h"
#include "db/reader.h"
#include "schema/bytes/keys.h"

namespace ckptdb::internal {

// Receives the result of a merge, in order of position.
class MergeSink {
 public:
  virtual ~MergeSink() = default;
  // Receives rows of one page, which are contiguous in memory.
  virtual absl::Status Rows(const RowSink::Batch& batch) = 0;
  // Receives ids that are erased in the newest run that contains them.
  virtual absl::Status Erased(absl::Span<const int64_t> ids) = 0;
};

// A k-way merge over the pages of a group of runs. Keeps a heap of their heads,
// and takes all rows of the smallest up to the next head at once. Holds one
// page per slot and run in memory. Not thread-safe.
class RunMerge {
 public:
  // `runs` come from RunsOf. `slots` are indexes into the newest run's slots.
  // Uses `read` and the functions of `options`, which must outlive the merge.
  RunMerge(const StepReader::Impl& step, const std::vector<RankItem>& runs,
           const RunGroup& group, absl::Span<const size_t> slots,
           const ScanOptions& options);

  // Called for an id that two runs of one version upsert and no newer version
  // contains; an error ends the merge. Set it before Run. Default: one of the
  // rows is emitted.
  using OnShared = std::function<absl::Status(int64_t id, const RankItem& a,
                                              const RankItem& b)>;
  void set_on_shared(OnShared on_shared) { on_shared_ = std::move(on_shared); }

  absl::Status Run(MergeSink* sink);

  // Rows and erased ids that were read from each run, by its index in the
  // group.
  struct Count {
    uint64_t rows = 0;
    uint64_t erased = 0;
  };
  const std::vector<Count>& counts() const { return counts_; }

 private:
  struct Source {
    Source(const StepReader::Impl& step, const RankItem& item,
           absl::Span<const size_t> slots, const SliceRange& slices,
           const ReadOptions& options, uint16_t id_slot, size_t number)
        : cursor(step, item, slots, slices, options, id_slot),
          part(item),
          erased(id_slot == kErasedSlot),
          run(number) {}

    RunCursor cursor;
    RankItem part;
    uint32_t rank = 0;  // lower ranks are newer
    bool erased;
    size_t run;  // index in the group
    size_t at = 0;
    std::vector<uint8_t> keep;  // by row of the page, with `wanted_of_page`
  };

  // The next row of a source.
  struct Head {
    explicit Head(Source* from)
        : position(from->cursor.positions()[from->at]),
          rank(from->rank),
          source(from) {}

    RowPosition position;
    uint32_t rank;
    Source* source;
  };

  void OrderSources(const std::vector<RankItem>& runs, const RunGroup& group);
  absl::StatusOr<bool> NextPage(Source* source);
  bool Wants(const Source& source, size_t row) const;
  static bool After(const Head& a, const Head& b);
  void SiftDown();
  absl::Status Advance(size_t count);
  absl::Status SkipOlder(const RowPosition& position, const Source& newest);
  const Head* Second() const;
  absl::Status Emit(Source* source, size_t count, MergeSink* sink);
  absl::Status EmitPart(Source* source, size_t begin, size_t end,
                        MergeSink* sink);

  const ScanOptions& options_;
  OnShared on_shared_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<Head> heap_;  // the smallest first
  std::vector<Count> counts_;
  std::vector<const char*> values_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_READ_RUN_MERGE_H_
