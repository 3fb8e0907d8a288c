// SPDX-License-Identifier: Apache-2.0
// A table with arbitrary slots, for tests of the manager.
#ifndef CKPTDB_TESTS_MANAGER_RAW_TABLE_H_
#define CKPTDB_TESTS_MANAGER_RAW_TABLE_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "manager/model_state.h"

namespace ckptdb::testing {

// Returns the bytes of numbers as stored in a slot.
template <typename T>
std::string RawBytes(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

class RawTable : public TableState, public LiveTable {
 public:
  // Bytes slot by slot.
  using Row = std::vector<std::string>;

  // The first slot is a weight, the others are optimizer state.
  explicit RawTable(std::vector<Slot> slots) : slots_(std::move(slots)) {}

  void Set(int64_t id, Row row) { rows_[id] = std::move(row); }
  const std::map<int64_t, Row>& rows() const { return rows_; }
  int64_t erased() const { return erased_; }

  std::vector<Slot> slots() const override { return slots_; }
  absl::StatusOr<std::unique_ptr<RowSource>> AllRows() const override {
    return std::make_unique<Source>(rows_);
  }
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override {
    std::map<int64_t, Row> some;
    for (const int64_t id : ids) some[id] = rows_.at(id);
    return std::make_unique<Source>(std::move(some));
  }
  std::vector<std::string> optimizer_slots() const override {
    std::vector<std::string> names;
    for (size_t i = 1; i < slots_.size(); ++i) names.push_back(slots_[i].name);
    return names;
  }
  LiveTable* Live(absl::Span<const std::string> slots) override {
    live_.clear();
    for (const std::string& name : slots) {
      const auto slot =
          std::find_if(slots_.begin(), slots_.end(),
                       [&](const Slot& each) { return each.name == name; });
      live_.push_back(static_cast<size_t>(slot - slots_.begin()));
    }
    return this;
  }

  absl::Status Clear() override {
    rows_.clear();
    return absl::OkStatus();
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      Row& row = rows_[batch.ids[r]];
      row.resize(slots_.size());
      for (size_t i = 0; i < live_.size(); ++i) {
        const uint64_t bytes = slots_[live_[i]].row_bytes();
        row[live_[i]].assign(batch.slots[i] + r * bytes, bytes);
      }
    }
    return absl::OkStatus();
  }
  absl::Status Erase(int /*worker*/, absl::Span<const int64_t> ids) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int64_t id : ids) rows_.erase(id);
    erased_ += static_cast<int64_t>(ids.size());
    return absl::OkStatus();
  }

 private:
  // One block per row.
  class Source : public RowSource {
   public:
    explicit Source(std::map<int64_t, Row> rows) : rows_(std::move(rows)) {
      for (const auto& [id, row] : rows_) {
        std::vector<RowBlock::SlotValues>& slots = slots_.emplace_back();
        for (const std::string& value : row) {
          slots.push_back({value.data(), value.size()});
        }
        ids_.push_back(id);
      }
    }
    uint64_t block_count() const override { return ids_.size(); }
    absl::StatusOr<RowBlock> Block(uint64_t block) const override {
      return RowBlock{{&ids_[block], 1}, slots_[block]};
    }

   private:
    const std::map<int64_t, Row> rows_;
    std::vector<int64_t> ids_;
    std::vector<std::vector<RowBlock::SlotValues>> slots_;
  };

  const std::vector<Slot> slots_;
  std::mutex mutex_;
  std::map<int64_t, Row> rows_;
  std::vector<size_t> live_;
  int64_t erased_ = 0;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_RAW_TABLE_H_
