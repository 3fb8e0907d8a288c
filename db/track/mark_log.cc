// SPDX-License-Identifier: Apache-2.0
#include "db/track/mark_log.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "db/track/mark_hash.h"

namespace ckptdb::internal {
namespace {

constexpr size_t kMinChunkRows = 512;
constexpr size_t kMaxChunkRows = size_t{1} << 17;
// A merge pays off with this many marks per id, and not in a small log.
constexpr double kMergedRepetitions = 4;
constexpr size_t kMinMergedRows = size_t{1} << 18;

}  // namespace

// Returns memory for this many hashes, kept or new. The chunk keeps the pool
// alive and returns its memory to it.
ChunkPool::Chunk ChunkPool::Get(size_t rows) {
  Buffer buffer = Reuse(rows);
  if (buffer.hashes == nullptr) {
    // Not cleared: each row is read only after it was written.
    buffer = {std::make_unique_for_overwrite<uint64_t[]>(rows), rows};
  }
  used_bytes_ += buffer.bytes();
  rows = buffer.rows;
  const auto give_back = [pool = shared_from_this(), rows](uint64_t* hashes) {
    pool->GiveBack({std::unique_ptr<uint64_t[]>(hashes), rows});
  };
  return {{buffer.hashes.release(), give_back}, rows};
}

// Takes the largest buffer, so that few are needed.
ChunkPool::Buffer ChunkPool::Reuse(size_t rows) {
  const MutexLock lock(&mutex_);
  if (kept_.empty() || kept_.back().rows < rows) return {};
  Buffer buffer = std::move(kept_.back());
  kept_.pop_back();
  kept_bytes_ -= buffer.bytes();
  return buffer;
}

void ChunkPool::GiveBack(Buffer buffer) {
  const MutexLock lock(&mutex_);
  used_bytes_ -= buffer.bytes();
  kept_bytes_ += buffer.bytes();
  const auto at = std::upper_bound(
      kept_.begin(), kept_.end(), buffer.rows,
      [](size_t rows, const Buffer& other) { return rows < other.rows; });
  kept_.insert(at, std::move(buffer));
}

void ChunkPool::KeepAtMost(uint64_t bytes) {
  // Most calls have nothing to free, and take no lock.
  if (kept_bytes_ <= bytes) return;
  const MutexLock lock(&mutex_);
  while (kept_bytes_ > bytes) {
    kept_bytes_ -= kept_.back().bytes();
    kept_.pop_back();
  }
}

MarkSample::Hashes MarkSample::Select(absl::Span<const uint64_t> hashes) {
  Hashes selected;
  for (const uint64_t hash : hashes) {
    if ((hash >> kShift) % kSampled == 0) selected.push_back(hash);
  }
  return selected;
}

void MarkSample::Add(absl::Span<const uint64_t> selected) {
  if (bits_.empty()) bits_.resize(kBits / 64);
  for (const uint64_t hash : selected) {
    const uint64_t bit = (hash >> kShift) / kSampled % kBits;
    uint64_t& word = bits_[bit / 64];
    const uint64_t mask = uint64_t{1} << bit % 64;
    set_bits_ += (word & mask) == 0 ? 1 : 0;
    word |= mask;
  }
}

void MarkSample::Clear() {
  std::fill(bits_.begin(), bits_.end(), 0);
  set_bits_ = 0;
}

double MarkSample::Ids() const {
  // Some ids set the same bit, which linear counting corrects.
  constexpr auto kAll = static_cast<double>(kBits);
  const double unset = std::max(kAll - static_cast<double>(set_bits_), 0.5);
  return static_cast<double>(kSampled) * kAll * std::log(kAll / unset);
}

MarkRoom MarkLog::Reserve(uint64_t epoch, MarkKind kind, size_t rows) {
  // A run lies in one chunk, so the space may be less than requested; the
  // caller asks again.
  if (chunk_used_ == chunk_.rows) {
    chunk_ = pool_->Get(NextChunkRows(rows));
    chunk_used_ = 0;
    peak_bytes_ = std::max(peak_bytes_, pool_->used_bytes());
  }
  const absl::Span<uint64_t> hashes(chunk_.hashes.get() + chunk_used_,
                                    std::min(rows, chunk_.rows - chunk_used_));
  chunk_used_ += hashes.size();
  rows_ += hashes.size();
  AddRun({epoch, kind, hashes, chunk_.hashes});
  return {hashes, chunk_.hashes};
}

void MarkLog::Append(uint64_t epoch, MarkKind kind,
                     absl::Span<const uint64_t> hashes) {
  Sample(MarkSample::Select(hashes));
  while (!hashes.empty()) {
    hashes.remove_prefix(Reserve(epoch, kind, hashes.size()).Fill(hashes));
  }
}

bool MarkLog::ExtendsLastRun(uint64_t epoch, MarkKind kind) const {
  return !runs_.empty() && runs_.back().epoch == epoch &&
         runs_.back().kind == kind && runs_.back().chunk == chunk_.hashes;
}

// Extends the last run if the hashes follow it, so that a log of many small
// calls has few runs.
void MarkLog::AddRun(const MarkRun& run) {
  if (ExtendsLastRun(run.epoch, run.kind)) {
    MarkRun& last = runs_.back();
    last.hashes = {last.hashes.data(), last.hashes.size() + run.hashes.size()};
    return;
  }
  // Grows the vector by the amount that BytesToAppend has returned.
  if (runs_.size() == runs_.capacity()) {
    runs_.reserve(runs_.size() + RunsToAdd());
  }
  runs_.push_back(run);
}

// A chunk is as large as all previous ones together, so that a small log wastes
// little space.
size_t MarkLog::NextChunkRows(size_t rows) const {
  const size_t wanted = std::clamp(rows_, kMinChunkRows, kMaxChunkRows);
  return std::bit_ceil(std::max(wanted, rows));
}

// Returns how much Append would add to used_bytes(), given the steps in which
// runs and chunks grow: the limit is checked before memory is allocated.
uint64_t MarkLog::BytesToAppend(uint64_t epoch, MarkKind kind,
                                size_t rows) const {
  const size_t room = chunk_.rows - chunk_used_;
  size_t runs = room > 0 && !ExtendsLastRun(epoch, kind) ? 1 : 0;
  if (rows > room) ++runs;
  uint64_t bytes = 0;
  if (runs_.size() + runs > runs_.capacity()) {
    bytes += RunsToAdd() * sizeof(MarkRun);
  }
  if (rows > room) bytes += NextChunkRows(rows - room) * sizeof(uint64_t);
  return bytes;
}

size_t MarkLog::RunsToAdd() const {
  constexpr size_t kMinRuns = 8;
  return std::max(runs_.capacity(), kMinRuns);
}

std::vector<MarkRun> MarkLog::After(uint64_t epoch) const {
  const auto first = std::upper_bound(
      runs_.begin(), runs_.end(), epoch,
      [](uint64_t at, const MarkRun& run) { return at < run.epoch; });
  return {first, runs_.end()};
}

void MarkLog::DropUpTo(uint64_t epoch) {
  const auto first = std::upper_bound(
      runs_.begin(), runs_.end(), epoch,
      [](uint64_t at, const MarkRun& run) { return at < run.epoch; });
  if (first == runs_.begin()) return;
  for (auto run = runs_.begin(); run != first; ++run)
    rows_ -= run->hashes.size();
  runs_.erase(runs_.begin(), first);
  if (runs_.size() < runs_.capacity() / 4) runs_.shrink_to_fit();
  merged_rows_ = std::min(merged_rows_, rows_);
  if (runs_.empty()) {
    chunk_ = {};
    chunk_used_ = 0;
  }
  // Several ids may have set a bit, so bits cannot be cleared; the sample is
  // rebuilt from the remaining marks.
  sample_.Clear();
  for (const MarkRun& run : runs_) {
    sample_.Add(MarkSample::Select(run.hashes));
  }
}

// After a merge the log must double before the next one, so that the total cost
// of merging is proportional to the marks.
bool MarkLog::WorthMerging() const {
  return rows_ >= std::max(kMinMergedRows, 2 * merged_rows_) &&
         static_cast<double>(rows_) >= kMergedRepetitions * sample_.Ids();
}

void MarkLog::Merge(absl::Span<const uint64_t> cuts) {
  std::vector<uint64_t> epochs;
  const std::vector<MarkGroup> groups = GroupsBetween(cuts, &epochs);
  const NewestMarks newest(groups);
  // The runs are dropped before the result is appended, so that their chunks
  // are reused. The hashes to append are in `newest`.
  Clear();
  // Oldest first, because epochs in the log ascend.
  for (size_t group = groups.size(); group-- > 0;) {
    for (const MarkKind kind : {MarkKind::kUpserted, MarkKind::kErased}) {
      newest.ForEach(group, kind, [&](absl::Span<const uint64_t> hashes) {
        Append(epochs[group], kind, hashes);
      });
    }
  }
  merged_rows_ = rows_;
}

// Returns groups from the newest to the oldest, with the newest epoch of each.
std::vector<MarkGroup> MarkLog::GroupsBetween(
    absl::Span<const uint64_t> cuts, std::vector<uint64_t>* epochs) const {
  std::vector<MarkGroup> groups;
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    const auto cut = std::lower_bound(cuts.begin(), cuts.end(), run->epoch);
    if (groups.empty() || (cut != cuts.end() && *cut < epochs->back())) {
      groups.emplace_back();
      epochs->push_back(run->epoch);
    }
    groups.back().push_back({run->hashes, run->kind});
  }
  return groups;
}

uint64_t MarkLog::used_bytes() const {
  return pool_->used_bytes() + runs_.capacity() * sizeof(MarkRun) +
         sample_.bytes();
}

void MarkLog::KeepWhatWasNeeded() {
  const uint64_t used_bytes = pool_->used_bytes();
  pool_->KeepAtMost(peak_bytes_ - std::min(peak_bytes_, used_bytes));
  peak_bytes_ = used_bytes;
}

}  // namespace ckptdb::internal
