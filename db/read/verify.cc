// SPDX-License-Identifier: Apache-2.0
// Reads all data of a step and checks it against its records.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "db/base/parallel.h"
#include "db/base/progress.h"
#include "db/read/chunk_reader.h"
#include "db/read/run_cursor.h"
#include "db/read/shared_ids.h"
#include "db/read/step_reader_impl.h"
#include "db/read/table_runs.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

absl::Status BadDigest(const RankItem& part, uint64_t digest) {
  return absl::DataLossError(
      absl::StrCat(PlaceOf(part), ": digest ", absl::Hex(digest),
                   " does not match the digest of its record, ",
                   absl::Hex(part.item->digest)));
}

class Verifier {
 public:
  Verifier(const StepReader::Impl& step, const ReadOptions& options)
      : step_(step),
        options_(options),
        progress_("ReadOptions::progress", options.progress) {}

  // Adds the items of the step itself, without its tables if the version was
  // verified before.
  void AddOwn(bool with_tables) {
    for (const StepRecord::Rank& rank : step_.ranks()) {
      for (const Item& item : rank.items) {
        if (item.kind == Item::Kind::kRows && !with_tables) continue;
        Add(RankItem{rank.rank, &item, &step_.record()});
      }
    }
  }

  // Adds one task per stream of a table, so that they are read in parallel.
  // Their hashes are joined afterwards.
  void Add(const RankItem& part) {
    progress_.AddTotal(part.item->raw_bytes);
    if (part.item->kind != Item::Kind::kRows) {
      tasks_.push_back({part, kChunks, {}});
      return;
    }
    for (size_t slot = 0; slot <= part.item->slots.size(); ++slot) {
      tasks_.push_back({part, static_cast<int>(slot), {}});
    }
    if (part.item->run == Item::Run::kDelta) {
      tasks_.push_back({part, kErasedSlot, {}});
    }
  }

  absl::Status Run() {
    CKPTDB_RETURN_IF_ERROR(ParallelFor(
        options_.threads, tasks_.size(),
        [&](int, uint64_t i) {
          return tasks_[i].slot == kChunks ? CheckChunks(tasks_[i])
                                           : CheckStream(&tasks_[i]);
        },
        PollOf(options_.cancelled)));
    return CheckDigests();
  }

 private:
  static constexpr int kChunks = -1;
  // The chunks of an item, or one stream of a table.
  struct Task {
    RankItem part;
    int slot;
    std::string hashes;  // hashes of the pages so far, as bytes
  };

  absl::Status CheckChunks(const Task& task) {
    const Item& item = *task.part.item;
    std::string raw;
    ReadOptions alone = options_;
    // Items are already read in parallel.
    alone.threads = 1;
    const absl::Status all_read = ForChunks(
        step_, task.part, alone,
        [&](ChunkCursor* cursor, uint32_t chunk) -> absl::Status {
          raw.resize(ChunkRawBytes(item, chunk));
          CKPTDB_RETURN_IF_ERROR(cursor->Read(task.part, chunk, raw.data()));
          return progress_.Advance(raw.size());
        });
    CKPTDB_RETURN_IF_ERROR(all_read);
    const uint64_t digest =
        HashBytes({reinterpret_cast<const char*>(item.chunk_hashes.data()),
                   item.chunk_hashes.size() * sizeof(uint64_t)});
    if (digest == item.digest) return absl::OkStatus();
    return BadDigest(task.part, digest);
  }

  // Reads all pages of a stream, checks the hash of each and counts the rows.
  // The digest is checked once all streams of the run are read.
  absl::Status CheckStream(Task* task) {
    const auto slot = static_cast<uint16_t>(task->slot);
    // Ids are read with the scan's cursor, which also checks their order.
    if (slot == kIdSlot || slot == kErasedSlot) {
      RunCursor ids(step_, task->part, {}, SliceRange(), options_, slot);
      uint64_t rows = 0;
      for (bool more = true; more; rows += more ? ids.ids().size() : 0) {
        CKPTDB_ASSIGN_OR_RETURN(more, ids.Next());
      }
      CKPTDB_RETURN_IF_ERROR(CheckRows(*task, rows));
    }
    StreamCursor stream(step_, task->part, slot, SliceRange(), options_);
    uint64_t rows = 0;
    for (stream.SeekToSlices();; stream.Next()) {
      CKPTDB_ASSIGN_OR_RETURN(const bool more, stream.Load());
      if (!more) break;
      const uint64_t hash = stream.raw_hash();
      task->hashes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
      rows += stream.rows();
      CKPTDB_RETURN_IF_ERROR(progress_.Advance(stream.raw().size()));
    }
    return CheckRows(*task, rows);
  }

  static absl::Status CheckRows(const Task& task, uint64_t rows) {
    const Item& item = *task.part.item;
    const bool erased = task.slot == kErasedSlot;
    const uint64_t expected = erased ? item.erased_rows : item.rows;
    if (rows == expected) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(PlaceOf(task.part), " has ", rows,
                                            erased ? " erased ids" : " rows",
                                            "; its record has ", expected));
  }

  // Checks the digests of tables, whose streams are adjacent in tasks_.
  absl::Status CheckDigests() const {
    for (size_t i = 0; i < tasks_.size();) {
      const RankItem part = tasks_[i].part;
      if (tasks_[i].slot == kChunks) {
        ++i;
        continue;
      }
      std::string hashes;
      const Item* const item = part.item;
      for (; i < tasks_.size() && tasks_[i].part.item == item; ++i) {
        hashes += tasks_[i].hashes;
      }
      const uint64_t digest = HashBytes(hashes);
      if (digest != part.item->digest) {
        return BadDigest(part, digest);
      }
    }
    return absl::OkStatus();
  }

  const StepReader::Impl& step_;
  const ReadOptions& options_;
  std::vector<Task> tasks_;
  Progress progress_;
};

std::set<std::string> TablesOf(const ChainMember& member) {
  std::set<std::string> tables;
  for (const StepRecord::Rank& rank : member.ranks) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows) tables.insert(item.name);
    }
  }
  return tables;
}

}  // namespace

// Verifies the runs of older members that the step needs; others may have been
// swept.
absl::Status VerifyStep(const StepReader::Impl& step,
                        const ReadOptions& options,
                        std::set<Version>* verified) {
  Verifier verifier(step, options);
  const auto known = [&](const Version& version) {
    return verified != nullptr && verified->contains(version);
  };
  verifier.AddOwn(/*with_tables=*/!known(step.record().version));
  std::map<Version, std::set<std::string>> read;
  std::vector<std::vector<RankItem>> tables;
  for (const std::string& table : TablesOf(step.chain().back())) {
    CKPTDB_ASSIGN_OR_RETURN(tables.emplace_back(), RunsOf(step, table));
    for (const RankItem& run : tables.back()) {
      read[run.step->version].insert(table);
      if (run.step == &step.record() || known(run.step->version)) continue;
      verifier.Add(run);
    }
  }
  CKPTDB_RETURN_IF_ERROR(verifier.Run());
  std::set<Version> hidden;
  for (const std::vector<RankItem>& runs : tables) {
    CKPTDB_RETURN_IF_ERROR(
        CheckNoSharedIds(step, runs, known, options, &hidden));
  }
  if (verified == nullptr) return absl::OkStatus();
  verified->insert(step.record().version);
  for (const ChainMember& member : step.chain()) {
    const Version& version = member.record.version;
    if (hidden.contains(version)) continue;
    // A version counts as verified once all of its tables were read; this step
    // may need only some.
    if (read[version] == TablesOf(member)) verified->insert(version);
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
