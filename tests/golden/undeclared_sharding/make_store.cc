// SPDX-License-Identifier: Apache-2.0
// Makes the store in this folder: see README.md. It was built with a library
// from before tables declared their sharding; a newer one rejects tables of
// three ranks without a declaration.
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/state.h"
#include "db/store.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

constexpr uint32_t kRanks = 3;
constexpr int64_t kIdStride = 7919;  // so that ids are in slices of all ranks

// The step that last wrote each row, by id.
using Rows = std::map<int64_t, int64_t>;
struct Changes {
  Rows upserted;
  std::vector<int64_t> erased;
};
using Owner = std::function<uint32_t(int64_t id)>;

// Four floats, id + step / 4 + 0 .. 3, and the step.
class Memory : public RowSource {
 public:
  explicit Memory(const Rows& rows) {
    for (const auto& [id, step] : rows) {
      ids_.push_back(id);
      for (int i = 0; i < 4; ++i) {
        embedding_.push_back(static_cast<float>(id) +
                             static_cast<float>(step) / 4 +
                             static_cast<float>(i));
      }
      written_.push_back(step);
    }
    slots_ = {{embedding_.data(), 16}, {written_.data(), 8}};
  }
  uint64_t block_count() const override { return 1; }
  absl::StatusOr<RowBlock> Block(uint64_t) const override {
    return RowBlock{ids_, slots_};
  }

 private:
  std::vector<int64_t> ids_;
  std::vector<float> embedding_;
  std::vector<int64_t> written_;
  std::vector<RowBlock::SlotValues> slots_;
};

uint32_t ByModulo(int64_t id) { return static_cast<uint64_t>(id) % kRanks; }
uint32_t BySlices(int64_t id) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(kRanks);
  uint32_t rank = 0;
  while (bounds[rank + 1] <= SliceOf(id, SliceHash::kMix)) ++rank;
  return rank;
}

// Saves one table, "user"; if `changes` is given, only its changed rows.
absl::StatusOr<Version> Save(Store* store, const SaveSpec& spec,
                             const PublishSpec& publish,
                             const std::vector<Rows>& rows,
                             const std::vector<Changes>& changes) {
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store->Begin(spec));
  std::vector<StagedRank> staged;
  const float weights[6] = {static_cast<float>(spec.step), 1, 2, 3, 4, 5};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    RankState state;
    const Memory all(rows[rank]);
    const Memory upserted(changes.empty() ? Rows() : changes[rank].upserted);
    RankState::Table table;
    table.name = "user";
    table.slots = {{"embedding", DType::kF32, 4}, {"written", DType::kI64, 1}};
    table.slice_hash = SliceHash::kMix;
    table.rows = &all;
    if (!changes.empty()) {
      table.changes = RankState::Changes{&upserted, changes[rank].erased};
    }
    state.AddTable(table);
    if (rank == 0) state.AddTensor("w", TensorView::Of(weights, {2, 3}));
    const std::string position =
        "step " + std::to_string(spec.step) + " rank " + std::to_string(rank);
    state.AddBlob("reader", position);
    CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                            Stage(store->path(), save.tickets[rank], state));
  }
  CKPTDB_RETURN_IF_ERROR(
      store->Publish(save.version, staged, publish).status());
  return save.version;
}

class Trainer {
 public:
  Trainer(Store* store, Owner owner, std::vector<uint32_t> bounds)
      : store_(store), owner_(std::move(owner)), bounds_(std::move(bounds)) {}

  absl::Status Train(int64_t step, const std::vector<int64_t>& upserted,
                     const std::vector<int64_t>& erased,
                     const PublishSpec& publish = {}) {
    std::vector<Changes> changes(kRanks);
    for (const int64_t k : upserted) {
      rows_[k * kIdStride] = step;
      changes[owner_(k * kIdStride)].upserted[k * kIdStride] = step;
    }
    for (const int64_t k : erased) {
      rows_.erase(k * kIdStride);
      changes[owner_(k * kIdStride)].erased.push_back(k * kIdStride);
    }
    std::vector<Rows> rows(kRanks);
    for (const auto& row : rows_) rows[owner_(row.first)].insert(row);
    SaveSpec spec;
    spec.step = step;
    spec.world_size = kRanks;
    spec.slice_bounds = bounds_;
    spec.parent = parent_;
    if (!parent_.has_value()) changes.clear();
    CKPTDB_ASSIGN_OR_RETURN(parent_,
                            Save(store_, spec, publish, rows, changes));
    return absl::OkStatus();
  }

 private:
  Store* const store_;
  const Owner owner_;
  const std::vector<uint32_t> bounds_;
  std::optional<Version> parent_;
  Rows rows_;
};

std::vector<int64_t> Range(int64_t begin, int64_t end, int64_t every = 1) {
  std::vector<int64_t> all;
  for (int64_t k = begin; k < end; k += every) all.push_back(k);
  return all;
}

absl::Status MakeStore(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  CKPTDB_RETURN_IF_ERROR(store->SetUserMetadata({{"run", "golden"}}));

  // Id 2 is on ranks 0 and 1, then id 9 on ranks 0 and 2 in the changed rows.
  SaveSpec twice;
  twice.step = 5;
  twice.world_size = kRanks;
  const std::vector<Rows> rows = {{{1, 5}, {2, 5}}, {{2, 5}, {3, 5}}, {}};
  CKPTDB_ASSIGN_OR_RETURN(twice.parent, Save(store.get(), twice, {}, rows, {}));
  twice.step = 6;
  CKPTDB_RETURN_IF_ERROR(
      Save(store.get(), twice, {}, rows,
           {{{{2, 6}, {9, 6}}, {}}, {{}, {2}}, {{{9, 6}}, {}}})
          .status());

  Trainer modulo(store.get(), ByModulo, {});
  PublishSpec publish;
  publish.metrics = {{"auc", 0.75}};
  publish.user_metadata = {{"note", "by id modulo ranks"}};
  CKPTDB_RETURN_IF_ERROR(modulo.Train(10, Range(-20, 40), {}, publish));
  CKPTDB_RETURN_IF_ERROR(store->Pin(10));
  CKPTDB_RETURN_IF_ERROR(modulo.Train(20, Range(-10, 45, 5), {-20, -19, -18}));
  CKPTDB_RETURN_IF_ERROR(store->Fold(20).status());
  PublishSpec ephemeral;
  ephemeral.ephemeral = true;
  CKPTDB_RETURN_IF_ERROR(modulo.Train(30, Range(-7, 40, 7), {1, 2}, ephemeral));
  CKPTDB_RETURN_IF_ERROR(modulo.Train(40, {-1, 50}, {40}));

  Trainer slices(store.get(), BySlices, EvenSliceBounds(kRanks));
  CKPTDB_RETURN_IF_ERROR(slices.Train(50, Range(-20, 40), {}));
  CKPTDB_RETURN_IF_ERROR(slices.Train(60, Range(0, 5), {39}));
  return store->Sweep().status();
}

}  // namespace
}  // namespace ckptdb

int main(int, char** argv) {
  const absl::Status status = ckptdb::MakeStore(argv[1]);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
