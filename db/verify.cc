// Reads all that a step holds, and checks it against its records.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/parallel.h"
#include "ckptdb/db/run_cursor.h"
#include "ckptdb/db/step_reader_impl.h"
#include "ckptdb/schema/limits.h"
#include "ckptdb/schema/page.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status BadDigest(const StepRecord& step, const RankItem& part,
                       uint64_t digest) {
  return absl::DataLossError(
      absl::StrCat(PlaceOf(step, part), ": digest ", absl::Hex(digest),
                   " is not ", absl::Hex(part.item->digest), " of its record"));
}

class Verifier {
 public:
  Verifier(const StepReader::Impl& step, const ReadOptions& options,
           const Progress& progress)
      : step_(step), options_(options), progress_(progress) {}

  absl::Status Run() {
    for (const RankRecord& rank : step_.ranks()) {
      for (const Item& item : rank.items) {
        all_bytes_ += item.raw_bytes;
        Add({rank.rank, &item});
      }
    }
    CKPTDB_RETURN_IF_ERROR(
        ParallelFor(options_.threads, tasks_.size(), [&](int, uint64_t i) {
          return tasks_[i].slot == kChunks ? CheckChunks(tasks_[i])
                                           : CheckStream(&tasks_[i]);
        }));
    return CheckDigests();
  }

 private:
  static constexpr int kChunks = -1;
  // The chunks of an item, or one stream of a table.
  struct Task {
    RankItem part;
    int slot;
    std::string hashes;  // of the pages seen, as bytes
  };

  void Add(const RankItem& part) {
    if (part.item->kind != ItemKind::kRows) {
      tasks_.push_back({part, kChunks, {}});
      return;
    }
    for (size_t slot = 0; slot <= part.item->slots.size(); ++slot) {
      tasks_.push_back({part, static_cast<int>(slot), {}});
    }
  }

  void Advance(uint64_t bytes) {
    if (!progress_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    done_bytes_ += bytes;
    progress_(done_bytes_, all_bytes_);
  }

  absl::Status CheckChunks(const Task& task) {
    const Item& item = *task.part.item;
    std::string raw;
    for (size_t i = 0; i < item.chunk_hashes.size(); ++i) {
      const auto chunk = static_cast<uint32_t>(i);
      raw.resize(ChunkRawBytes(item, chunk));
      CKPTDB_RETURN_IF_ERROR(ReadChunk(step_, task.part, chunk, raw.data()));
      Advance(raw.size());
    }
    const uint64_t digest =
        HashBytes({reinterpret_cast<const char*>(item.chunk_hashes.data()),
                   item.chunk_hashes.size() * sizeof(uint64_t)});
    if (digest == item.digest) return absl::OkStatus();
    return BadDigest(step_.record(), task.part, digest);
  }

  absl::Status CheckStream(Task* task) {
    const Item& item = *task->part.item;
    // The ids by the cursor that a scan uses: it checks their order as well.
    if (task->slot == 0) {
      RunCursor ids(step_, task->part, {}, SliceRange(), options_);
      uint64_t rows = 0;
      for (bool more = true; more; rows += more ? ids.ids().size() : 0) {
        CKPTDB_ASSIGN_OR_RETURN(more, ids.Next());
      }
      CKPTDB_RETURN_IF_ERROR(CheckRows(task->part, rows));
    }
    StreamCursor stream(step_, task->part, static_cast<uint16_t>(task->slot),
                        SliceRange(), options_);
    uint64_t rows = 0;
    for (stream.SeekToSlices();; stream.Next()) {
      CKPTDB_ASSIGN_OR_RETURN(const bool more, stream.Load());
      if (!more) break;
      const uint64_t hash = stream.raw_hash();
      task->hashes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
      rows += stream.rows();
      Advance(stream.raw().size());
    }
    if (rows == item.rows) return absl::OkStatus();
    return CheckRows(task->part, rows);
  }

  absl::Status CheckRows(const RankItem& part, uint64_t rows) const {
    if (rows == part.item->rows) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(PlaceOf(step_.record(), part),
                                            " has ", rows, " rows, not the ",
                                            part.item->rows, " of its record"));
  }

  // Of tables, whose streams follow one another in tasks_.
  absl::Status CheckDigests() const {
    for (size_t i = 0; i < tasks_.size();) {
      const RankItem& part = tasks_[i].part;
      if (tasks_[i].slot == kChunks) {
        ++i;
        continue;
      }
      std::string hashes;
      for (size_t slot = 0; slot <= part.item->slots.size(); ++slot) {
        hashes += tasks_[i++].hashes;
      }
      const uint64_t digest = HashBytes(hashes);
      if (digest != part.item->digest) {
        return BadDigest(step_.record(), part, digest);
      }
    }
    return absl::OkStatus();
  }

  const StepReader::Impl& step_;
  const ReadOptions& options_;
  const Progress& progress_;
  std::vector<Task> tasks_;
  std::mutex mutex_;
  uint64_t done_bytes_ = 0;
  uint64_t all_bytes_ = 0;
};

}  // namespace

absl::Status VerifyStep(const StepReader::Impl& step,
                        const ReadOptions& options, const Progress& progress) {
  return Verifier(step, options, progress).Run();
}

}  // namespace ckptdb::internal
