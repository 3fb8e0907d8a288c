// SPDX-License-Identifier: Apache-2.0
#include "tests/db/delta_content.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

std::map<std::string, std::pair<uint64_t, uint64_t>> PlacesOf(
    const std::vector<Slot>& slots) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> places;
  uint64_t at = 0;
  for (const Slot& slot : slots) {
    places[slot.name] = {at, slot.row_bytes()};
    at += slot.row_bytes();
  }
  return places;
}

// Looks all of `ids` up in one call, from the last to the first and once more.
void ExpectBatchLookup(const StepReader& step, const std::string& name,
                       const TableContent& table,
                       const std::set<int64_t>& ids) {
  std::vector<int64_t> batch(ids.rbegin(), ids.rend());
  batch.insert(batch.end(), ids.begin(), ids.end());
  ASSERT_OK_AND_ASSIGN(const StepReader::TableSpec spec, step.FindTable(name));
  std::vector<std::string> slots;
  uint64_t row_bytes = 0;
  std::vector<std::string> values;
  std::vector<char*> out;
  for (const Slot& slot : spec.slots) {
    slots.push_back(slot.name);
    row_bytes += slot.row_bytes();
    values.emplace_back(batch.size() * slot.row_bytes(), '\xcc');
  }
  for (std::string& each : values) out.push_back(each.data());
  const auto found = std::make_unique<bool[]>(batch.size());
  ASSERT_OK(step.LookupRows(name, batch, slots, out, found.get()));
  for (size_t i = 0; i < batch.size(); ++i) {
    std::string row;
    for (size_t s = 0; s < slots.size(); ++s) {
      const uint64_t bytes = spec.slots[s].row_bytes();
      row += values[s].substr(i * bytes, bytes);
    }
    const auto expected = table.rows.find(batch[i]);
    EXPECT_EQ(found[i], expected != table.rows.end()) << "id " << batch[i];
    EXPECT_TRUE(row == (expected != table.rows.end()
                            ? expected->second
                            : std::string(row_bytes, '\0')))
        << "id " << batch[i];
  }
}

}  // namespace

TableDelta DeltaBetween(const Rows& before, const Rows& after) {
  TableDelta delta;
  for (const auto& [id, values] : after) {
    const auto old = before.find(id);
    if (old == before.end() || old->second != values)
      delta.upserted[id] = values;
  }
  for (const auto& [id, values] : before) {
    if (!after.contains(id)) delta.erased.push_back(id);
  }
  return delta;
}

Deltas ChangesBetween(const RankContent& before, const RankContent& after) {
  Deltas deltas;
  for (const auto& [name, table] : after.tables) {
    const auto old = before.tables.find(name);
    deltas[name] = DeltaBetween(
        old == before.tables.end() ? Rows() : old->second.rows, table.rows);
  }
  return deltas;
}

HeldChanges::HeldChanges(RankContent content, Deltas deltas, bool whole,
                         size_t rows_per_block, const TableSharding& sharding)
    : content_(std::move(content)), deltas_(std::move(deltas)) {
  for (const auto& [name, tensor] : content_.tensors)
    state_.AddTensor(name, tensor.View(), tensor.codec);
  for (const auto& [name, bytes] : content_.blobs) state_.AddBlob(name, bytes);
  for (const auto& [name, table] : content_.tables) {
    RankState::Table item;
    item.name = name;
    item.slots = table.slots;
    item.slice_hash = table.hash;
    item.sharding = sharding;
    const auto delta = deltas_.find(name);
    if (delta != deltas_.end()) {
      item.changes = RankState::Changes{
          Hold(table.slots, delta->second.upserted, rows_per_block),
          delta->second.erased};
    }
    if (whole || delta == deltas_.end())
      item.rows = Hold(table.slots, table.rows, rows_per_block);
    state_.AddTable(std::move(item));
  }
}

const RowSource* HeldChanges::Hold(const std::vector<Slot>& slots,
                                   const Rows& rows, size_t rows_per_block) {
  rows_.push_back(std::make_unique<BlockRows>(
      slots, std::vector<BlockRows::Row>(rows.rbegin(), rows.rend()),
      rows_per_block, /*padding=*/0, /*scattered=*/rows.size() % 2 == 1));
  return rows_.back().get();
}

LiveRows::LiveRows(const std::vector<Slot>& slots, Rows rows,
                   const std::vector<std::string>& scanned)
    : rows_(std::move(rows)) {
  const auto places = PlacesOf(slots);
  for (const Slot& slot : slots) {
    row_bytes_ += slot.row_bytes();
    if (!scanned.empty()) continue;
    const auto& [at, bytes] = places.at(slot.name);
    parts_.push_back({at, bytes});
  }
  for (const std::string& name : scanned) {
    const auto& [at, bytes] = places.at(name);
    parts_.push_back({at, bytes});
  }
}

void LiveRows::NewScan() { touched_.clear(); }

absl::Status LiveRows::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!touched_.empty()) return absl::InternalError("cleared after rows");
  cleared_ = true;
  rows_.clear();
  return absl::OkStatus();
}

absl::Status LiveRows::Touch(int64_t id) {
  if (touched_.insert(id).second) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("id ", id, " came twice"));
}

absl::Status LiveRows::Consume(int, const RowSink::Batch& batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (batch.slots.size() != parts_.size()) {
    return absl::InternalError(
        absl::StrCat(batch.slots.size(), " slots in a batch"));
  }
  for (size_t r = 0; r < batch.ids.size(); ++r) {
    CKPTDB_RETURN_IF_ERROR(Touch(batch.ids[r]));
    std::string& row = rows_[batch.ids[r]];
    row.resize(row_bytes_);
    for (size_t s = 0; s < parts_.size(); ++s) {
      const auto& [at, bytes] = parts_[s];
      row.replace(at, bytes, batch.slots[s] + r * bytes, bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status LiveRows::Erase(int, absl::Span<const int64_t> ids) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const int64_t id : ids) {
    CKPTDB_RETURN_IF_ERROR(Touch(id));
    rows_.erase(id);
  }
  return absl::OkStatus();
}

Rows Project(const TableContent& table, const std::vector<std::string>& slots) {
  const auto places = PlacesOf(table.slots);
  Rows projected;
  for (const auto& [id, values] : table.rows) {
    std::string& row = projected[id];
    for (const std::string& name : slots) {
      const auto& [at, bytes] = places.at(name);
      row += values.substr(at, bytes);
    }
  }
  return projected;
}

void ExpectLookups(const StepReader& step, const std::string& name,
                   const TableContent& table, const std::set<int64_t>& ids) {
  for (const int64_t id : ids) {
    const auto row = step.LookupRow(name, id);
    const auto expected = table.rows.find(id);
    if (expected == table.rows.end()) {
      EXPECT_THAT(row, NotFound(std::to_string(id)));
      continue;
    }
    ASSERT_OK(row) << "id " << id;
    std::string all;
    for (const std::string& slot : *row) all += slot;
    EXPECT_TRUE(all == expected->second) << "id " << id;
  }
  ExpectBatchLookup(step, name, table, ids);
}

}  // namespace ckptdb::testing
