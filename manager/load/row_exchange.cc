// SPDX-License-Identifier: Apache-2.0
#include "manager/load/row_exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "db/base/mutex.h"
#include "db/base/own_rows.h"
#include "db/base/parallel.h"
#include "manager/ranks/message_codec.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/modulo_rank.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// The number of rows passed to one LiveTable::Consume call.
constexpr uint64_t kBatchRows = 8192;
// The first byte of a message between ranks: rows follow, or an error.
constexpr char kRows = 0;
constexpr char kError = 1;

// The message to each rank, by rank: kRows, then for each batch the number of
// its rows, the ids, and the values of slot after slot.
using Outgoing = std::vector<std::string>;

// Sorts a scan's rows by their ranks. The scan's workers share the buckets.
// Each sorts its batch without a lock first, so that it locks a bucket only for
// the copy, once per batch.
class RowSorter : public RowSink {
 public:
  RowSorter(const RowExchange& exchange, std::vector<uint64_t> row_bytes,
            uint64_t round_bytes)
      : exchange_(exchange),
        row_bytes_(std::move(row_bytes)),
        world_size_(exchange.ranks->world_size()),
        modulo_(world_size_),
        own_(exchange.sharding, exchange.hash, exchange.ranks->rank(),
             world_size_),
        buckets_(world_size_) {
    for (Bucket& bucket : buckets_) {
      const MutexLock lock(&bucket.mutex);
      // An even share and an eighth more, as ids are never spread evenly.
      bucket.bytes.reserve(round_bytes / world_size_ * 9 / 8);
      bucket.bytes.push_back(kRows);
    }
  }

  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    std::vector<std::vector<uint32_t>> rows(world_size_);
    const std::vector<uint32_t> ranks = RanksOf(batch.ids);
    for (uint32_t r = 0; r < batch.ids.size(); ++r) {
      if (ranks[r] >= world_size_) {
        // No rank would receive the row, and it would be lost.
        return absl::InvalidArgumentError(own_.DescribeNoRank(batch.ids[r]));
      }
      rows[ranks[r]].push_back(r);
    }
    for (uint32_t rank = 0; rank < world_size_; ++rank) {
      if (rows[rank].empty()) continue;
      Bucket& bucket = buckets_[rank];
      const MutexLock lock(&bucket.mutex);
      Append(batch, rows[rank], &bucket.bytes);
    }
    return absl::OkStatus();
  }
  Outgoing Take() {
    Outgoing outgoing;
    for (Bucket& bucket : buckets_) {
      const MutexLock lock(&bucket.mutex);
      outgoing.push_back(std::move(bucket.bytes));
    }
    return outgoing;
  }

 private:
  struct Bucket {
    Mutex mutex;
    std::string bytes ABSL_GUARDED_BY(mutex);
  };

  std::vector<uint32_t> RanksOf(absl::Span<const int64_t> ids) const {
    std::vector<uint32_t> ranks(ids.size());
    if (exchange_.sharding.kind() == Item::Sharding::kByModulo) {
      std::transform(ids.begin(), ids.end(), ranks.begin(), modulo_);
    } else {
      exchange_.sharding.ranks_of()(ids, world_size_, absl::MakeSpan(ranks));
    }
    return ranks;
  }
  void Append(const Batch& batch, const std::vector<uint32_t>& rows,
              std::string* to) const {
    const uint64_t count = rows.size();
    to->append(reinterpret_cast<const char*>(&count), sizeof(count));
    for (const uint32_t row : rows) {
      to->append(reinterpret_cast<const char*>(&batch.ids[row]),
                 sizeof(int64_t));
    }
    for (size_t s = 0; s < row_bytes_.size(); ++s) {
      for (const uint32_t row : rows) {
        to->append(batch.slots[s] + row * row_bytes_[s], row_bytes_[s]);
      }
    }
  }

  const RowExchange& exchange_;
  const std::vector<uint64_t> row_bytes_;
  const uint32_t world_size_;
  const ModuloRank modulo_;
  const OwnRows own_;
  std::vector<Bucket> buckets_;
};

// Passes rows received from another rank to the table.
absl::Status Consume(absl::string_view bytes, int worker,
                     const std::vector<uint64_t>& row_bytes, LiveTable* live) {
  std::vector<int64_t> ids;
  std::vector<const char*> slots(row_bytes.size());
  const uint64_t all_bytes = std::accumulate(row_bytes.begin(), row_bytes.end(),
                                             uint64_t{sizeof(int64_t)});
  while (!bytes.empty()) {
    uint64_t count = 0;
    if (bytes.size() >= sizeof(count)) {
      std::memcpy(&count, bytes.data(), sizeof(count));
      bytes.remove_prefix(sizeof(count));
    }
    // Divides, because the product with a corrupt count could overflow.
    if (count == 0 || bytes.size() / all_bytes < count) {
      return absl::InternalError(absl::StrCat(
          "cannot decode ", bytes.size(), " bytes of rows from another rank"));
    }
    ids.resize(count);
    std::memcpy(ids.data(), bytes.data(), count * sizeof(int64_t));
    bytes.remove_prefix(count * sizeof(int64_t));
    for (size_t s = 0; s < slots.size(); ++s) {
      slots[s] = bytes.data();
      bytes.remove_prefix(count * row_bytes[s]);
    }
    for (uint64_t done = 0; done < count; done += kBatchRows) {
      std::vector<const char*> here = slots;
      for (size_t s = 0; s < here.size(); ++s) here[s] += done * row_bytes[s];
      const uint64_t some = std::min(kBatchRows, count - done);
      CKPTDB_RETURN_IF_ERROR(live->Consume(
          worker, {absl::MakeConstSpan(ids).subspan(done, some), here}));
    }
  }
  return absl::OkStatus();
}

// One rank's part of the exchange. A rank that has failed still joins the next
// round and sends its error instead of rows, so that the others do not wait for
// it and all return the same error. Agree handles failures after the last
// round.
class Exchanger {
 public:
  Exchanger(const RowExchange& exchange, std::vector<uint64_t> row_bytes,
            uint32_t rounds, uint64_t round_bytes)
      : exchange_(exchange),
        row_bytes_(std::move(row_bytes)),
        rounds_(rounds),
        round_bytes_(round_bytes),
        bounds_(EvenSliceBounds(exchange.ranks->world_size() * rounds)) {}

  absl::Status Run() {
    const std::string tag =
        absl::StrCat("rows of table \"", exchange_.table, "\"");
    absl::Status own = Clear();
    for (uint32_t round = 0; round < rounds_; ++round) {
      Outgoing outgoing = own.ok() ? Read(round, &own) : Outgoing();
      if (!own.ok()) {
        outgoing.assign(
            exchange_.ranks->world_size(),
            absl::StrCat(std::string(1, kError), EncodeStatus(own)));
      }
      const auto incoming = exchange_.ranks->AllToAll(tag, std::move(outgoing),
                                                      exchange_.deadline);
      CKPTDB_RETURN_IF_ERROR(incoming.status());
      CKPTDB_RETURN_IF_ERROR(FirstError(*incoming));
      own = Take(*incoming);
    }
    return Agree(exchange_.ranks, tag, own, exchange_.deadline);
  }

 private:
  absl::Status Clear() const {
    if (exchange_.mode != LiveTable::RestoreMode::kClear) {
      return absl::OkStatus();
    }
    return CallGuarded("LiveTable::Clear",
                       [&] { return exchange_.live->Clear(); });
  }
  // Each round reads the pages at both its ends again, so rounds are large: in
  // rounds of 32 MiB instead of 128 the exchange of docs/performance.md read
  // 444 MB instead of 379.
  Outgoing Read(uint32_t round, absl::Status* status) const {
    const size_t part = exchange_.ranks->rank() * size_t{rounds_} + round;
    ScanOptions scan = exchange_.scan;
    scan.slices = {bounds_[part], bounds_[part + 1]};
    RowSorter sorter(exchange_, row_bytes_, round_bytes_);
    *status = exchange_.step->ScanTable(exchange_.table, scan, &sorter);
    return sorter.Take();
  }
  // Every rank receives all errors, so all ranks return the same one.
  static absl::Status FirstError(const std::vector<std::string>& incoming) {
    for (size_t rank = 0; rank < incoming.size(); ++rank) {
      if (!incoming[rank].empty() && incoming[rank][0] == kRows) continue;
      const absl::Status error =
          incoming[rank].empty()
              ? absl::InternalError("it sent no bytes")
              : DecodeStatus(absl::string_view(incoming[rank]).substr(1));
      return Annotate(error, absl::StrCat("rank ", rank));
    }
    return absl::OkStatus();
  }
  absl::Status Take(const std::vector<std::string>& incoming) const {
    return ParallelFor(exchange_.scan.read.threads, incoming.size(),
                       [&](int worker, uint64_t rank) {
                         return CallGuarded("RowSink::Consume", [&] {
                           return Consume(
                               absl::string_view(incoming[rank]).substr(1),
                               worker, row_bytes_, exchange_.live);
                         });
                       });
  }

  const RowExchange& exchange_;
  const std::vector<uint64_t> row_bytes_;
  const uint32_t rounds_;
  const uint64_t round_bytes_;
  const std::vector<uint32_t> bounds_;
};

}  // namespace

bool ShouldExchange(const StepReader::TableSpec& table, uint32_t saved_ranks,
                    const TableSharding& sharding, const Coordinator& ranks) {
  const uint32_t world_size = ranks.world_size();
  const bool by_modulo = sharding.kind() == Item::Sharding::kByModulo;
  if (!by_modulo && sharding.kind() != Item::Sharding::kCustom &&
      sharding.kind() != Item::Sharding::kByRange) {
    return false;
  }
  if (world_size == 1 || !ranks.HasDirectAllToAll()) return false;
  // If each saving rank has rows of a single current rank, no page contains
  // rows of two.
  const bool alike = table.sharding == sharding.kind() &&
                     table.sharding_name == sharding.name();
  if (alike && saved_ranks == world_size) return false;
  return !(alike && by_modulo && saved_ranks % world_size == 0);
}

absl::Status RestoreByExchange(const RowExchange& exchange) {
  CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec table,
                          exchange.step->FindTable(exchange.table));
  std::vector<uint64_t> row_bytes;
  uint64_t bytes = sizeof(int64_t);
  for (const std::string& name : exchange.scan.slots) {
    const auto slot =
        std::find_if(table.slots.begin(), table.slots.end(),
                     [&](const Slot& each) { return each.name == name; });
    if (slot == table.slots.end()) {
      return absl::InternalError(absl::StrCat("no slot \"", name, "\""));
    }
    row_bytes.push_back(slot->row_bytes());
    bytes += slot->row_bytes();
  }
  // All ranks compute the same number of rounds, as they have the same record.
  // A round has at least a slice for each rank.
  const uint32_t world_size = exchange.ranks->world_size();
  const uint64_t rank_bytes = table.rows * bytes / world_size;
  const uint64_t rounds = std::clamp<uint64_t>(
      rank_bytes / exchange.round_bytes + 1, 1, kSlices / world_size);
  Exchanger exchanger(exchange, std::move(row_bytes),
                      static_cast<uint32_t>(rounds), rank_bytes / rounds);
  return Annotate(exchanger.Run(),
                  absl::StrCat("table \"", exchange.table, "\""));
}

}  // namespace ckptdb::internal
