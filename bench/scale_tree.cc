// What a gathering at rank 0 costs it, measured by its own code without threads
// and network; and, simulated from these costs, a gathering along a tree, in
// which ranks join the parts of those below them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/measure.h"
#include "ckptdb/manager/coordinator.h"
#include "ckptdb/manager/ranks/messages.h"
#include "ckptdb/manager/ranks/packed_values.h"
#include "ckptdb/manager/ranks/rank_calls.h"
#include "ckptdb/schema/bytes/page.h"
#include "ckptdb/schema/records/records.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

// A rank of a job as docs/scaling.md describes it.
constexpr int kTensorsOfRank = 20;
constexpr int kChunksOfTensor = 16;
constexpr uint64_t kFilesOfRank = 4;
constexpr uint32_t kMeasuredRanks = 1024;
constexpr uint32_t kSimulatedWorlds[] = {1024, 10'000};
constexpr uint32_t kFanOuts[] = {8, 32, 100};
// The network that the simulation assumes.
constexpr double kLatencySeconds = 50e-6;
constexpr double kBytesPerSecond = 1e9;

Item MakeTensor(uint32_t rank, int number) {
  constexpr int64_t kShardElements = int64_t{kChunksOfTensor} << 16;
  Item item;
  item.kind = Item::Kind::kTensor;
  item.name = absl::StrCat("layer.", 100 + number, ".weight");
  item.data_version = {1, 1};
  item.dtype = DType::kF32;
  item.shape = {kShardElements};
  item.global_shape = {kShardElements * kMeasuredRanks};
  item.offset = {kShardElements * rank};
  item.raw_bytes = static_cast<uint64_t>(kShardElements) * sizeof(float);
  item.stored_bytes = item.raw_bytes;
  for (int c = 0; c < kChunksOfTensor; ++c) {
    item.chunk_hashes.push_back(rank * uint64_t{1000} +
                                static_cast<uint64_t>(c));
  }
  item.digest = HashBytes(
      absl::string_view(reinterpret_cast<const char*>(item.chunk_hashes.data()),
                        item.chunk_hashes.size() * sizeof(uint64_t)));
  return item;
}

// What a rank sends the owner for a save.
absl::StatusOr<std::string> MakePart(uint32_t rank) {
  StepRecord::Rank record;
  record.version = {1, 1};
  record.rank = rank;
  for (int t = 0; t < kTensorsOfRank; ++t) {
    record.items.push_back(MakeTensor(rank, t));
  }
  internal::StagedRecord staged;
  staged.uuid = "00000000-0000-4000-8000-000000000000";
  staged.version = record.version;
  staged.rank = rank;
  staged.world_size = kMeasuredRanks;
  CKPTDB_ASSIGN_OR_RETURN(staged.rank_record, EncodeRankRecord(record));
  for (uint64_t f = 0; f < kFilesOfRank; ++f) {
    internal::StagedFile file;
    file.path = absl::StrCat("staging/1/", rank, "/00000", f, ".sst");
    file.bytes = uint64_t{64} << 20;
    file.entries = kTensorsOfRank * kChunksOfTensor / kFilesOfRank;
    file.first_entry = f * file.entries;
    staged.files.push_back(std::move(file));
  }
  internal::SavePart part;
  part.staged = StagedRank(std::move(staged));
  return Encode(std::move(part));
}

// Takes what the owner sends, and counts it.
class CountingOutbox : public internal::RankCalls::Outbox {
 public:
  Bytes Send(uint32_t /*to*/, internal::CallMessage message) override {
    return std::make_shared<const std::string>(Encode(message));
  }
  void SendAgain(uint32_t /*to*/, Bytes /*bytes*/) override {}
};

struct GatherCosts {
  double bytes = 0;           // of a rank's part
  double gather_seconds = 0;  // to take one rank's message
  double decode_seconds = 0;  // of one rank's part
  double join_seconds = 0;    // to join one part to others, at an inner rank
};

// Returns the encoded messages of the ranks, that of rank 1 first.
absl::StatusOr<std::vector<std::string>> MakeMessages() {
  std::vector<std::string> messages;
  for (uint32_t rank = 1; rank < kMeasuredRanks; ++rank) {
    internal::CallMessage bring;
    bring.kind = internal::CallKind::kGather;
    bring.call = "gather attempt 1";
    CKPTDB_ASSIGN_OR_RETURN(bring.value, MakePart(rank));
    messages.push_back(Encode(bring));
  }
  return messages;
}

// The owner's side of one gathering.
absl::StatusOr<internal::CallResult> Gather(
    const std::vector<std::string>& messages) {
  CountingOutbox outbox;
  const auto calls = internal::NewOwnerCalls(kMeasuredRanks, &outbox);
  internal::CallRequest request;
  request.kind = internal::CallKind::kGather;
  request.call = "gather attempt 1";
  request.now = absl::Now();
  request.deadline = absl::Minutes(1);
  calls->Begin(std::move(request));
  for (uint32_t rank = 1; rank < kMeasuredRanks; ++rank) {
    internal::CallMessage message;
    CKPTDB_RETURN_IF_ERROR(Decode(messages[rank - 1], &message));
    calls->OnMessage(rank, std::move(message));
  }
  calls->Advance(absl::Now());
  return calls->Take();
}

// The owner's share of a gathering of kMeasuredRanks, in CPU time, as other
// programs may use the machine.
absl::StatusOr<GatherCosts> MeasureGathering() {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> messages,
                          MakeMessages());
  internal::CallResult gathered;
  CKPTDB_ASSIGN_OR_RETURN(const Sample gather, Measure([&]() -> absl::Status {
                            CKPTDB_ASSIGN_OR_RETURN(gathered, Gather(messages));
                            return gathered.status;
                          }));
  std::string joined;
  CKPTDB_ASSIGN_OR_RETURN(const Sample join, Measure([&] {
                            joined = internal::PackValues(gathered.values);
                            return absl::OkStatus();
                          }));
  CKPTDB_ASSIGN_OR_RETURN(
      const Sample decode, Measure([&]() -> absl::Status {
        for (uint32_t rank = 1; rank < kMeasuredRanks; ++rank) {
          internal::SavePart part;
          CKPTDB_RETURN_IF_ERROR(Decode(gathered.values[rank], &part));
        }
        return absl::OkStatus();
      }));
  constexpr double kParts = kMeasuredRanks - 1;
  return GatherCosts{static_cast<double>(joined.size()) / kParts,
                     gather.cpu_seconds / kParts, decode.cpu_seconds / kParts,
                     join.cpu_seconds / kParts};
}

// The seconds until rank 0 has the parts of `ranks` ranks, all of which are
// ready at once. A rank takes one message after the other.
double SimulateStar(const GatherCosts& costs, uint32_t ranks) {
  const double message =
      std::max(costs.gather_seconds, costs.bytes / kBytesPerSecond);
  return kLatencySeconds + message * (ranks - 1);
}

// The same along a tree whose inner ranks have `fan_out` ranks below them. The
// parts below a rank come in one message, and are copied once.
double SimulateTree(const GatherCosts& costs, uint32_t ranks,
                    uint32_t fan_out) {
  if (ranks <= 1) return 0;
  // The ranks below are divided evenly; the largest part is the last one here.
  const uint32_t children = std::min(fan_out, ranks - 1);
  const uint32_t below = (ranks - 1 + children - 1) / children;
  const double bytes = costs.bytes * below;
  const double message =
      std::max(costs.gather_seconds + costs.join_seconds * below,
               bytes / kBytesPerSecond);
  return SimulateTree(costs, below, fan_out) + kLatencySeconds +
         message * children;
}

}  // namespace

absl::Status RunScaleTree(const BenchOptions& options, Report* report) {
  std::vector<GatherCosts> costs;
  for (int i = 0; i < options.repetitions; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(costs.emplace_back(), MeasureGathering());
  }
  std::sort(costs.begin(), costs.end(),
            [](const GatherCosts& a, const GatherCosts& b) {
              return a.gather_seconds < b.gather_seconds;
            });
  const GatherCosts& median = costs[costs.size() / 2];
  for (const uint32_t ranks : kSimulatedWorlds) {
    const Outcome star = {"star", {{SimulateStar(median, ranks), 0}}};
    std::vector<Outcome> trees;
    for (const uint32_t fan_out : kFanOuts) {
      trees.push_back({absl::StrCat("tree of ", fan_out),
                       {{SimulateTree(median, ranks, fan_out), 0}}});
    }
    std::vector<Outcome> outcomes = {star};
    outcomes.insert(outcomes.end(), trees.begin(), trees.end());
    CaseResult result =
        Compare(absl::StrCat("scale/gather_simulated/", ranks),
                static_cast<uint64_t>(median.bytes * ranks), outcomes);
    result.figures = {{"part_bytes", median.bytes},
                      {"gather_us_per_rank", median.gather_seconds * 1e6},
                      {"join_us_per_rank", median.join_seconds * 1e6},
                      {"decode_us_per_rank", median.decode_seconds * 1e6},
                      {"decode_seconds", median.decode_seconds * ranks}};
    report->Add(std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
