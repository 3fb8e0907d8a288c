// SPDX-License-Identifier: Apache-2.0
#include "tests/db/model_trainer.h"

#include "absl/strings/str_cat.h"

namespace ckptdb::testing {
namespace {

uint32_t OwnerOf(const SaveSpec& spec, const TableContent& table, int64_t id) {
  if (spec.slice_bounds.empty()) {
    return static_cast<uint32_t>(MixId(static_cast<uint64_t>(id)) %
                                 spec.world_size);
  }
  uint32_t rank = 0;
  while (spec.slice_bounds[rank + size_t{1}] <= SliceOf(id, table.hash)) ++rank;
  return rank;
}

}  // namespace

ModelTrainer::ModelTrainer(std::mt19937_64* random) : random_(random) {
  NewTable("modulo", SliceHash::kModulo);
  NewTable("mix", SliceHash::kMix);
}

void ModelTrainer::NewTable(const std::string& name, SliceHash hash) {
  TableContent& table = tables_[name];
  const auto width = static_cast<uint32_t>(1 + Below(40));
  table = {{{absl::StrCat("v", ++new_tables_), DType::kU8, width},
            {"freq", DType::kI32, 1}},
           hash,
           {}};
  table.rows = RandomRows(random_, table.row_bytes(), Below(150));
}

void ModelTrainer::ChangeRows() {
  auto picked = tables_.begin();
  std::advance(picked, static_cast<std::ptrdiff_t>(Below(tables_.size())));
  auto& [name, table] = *picked;
  for (uint64_t i = Below(30); i > 0; --i) {
    int64_t id = RandomIds(random_, 1).front();
    const auto known = table.rows.lower_bound(id);
    if (Below(2) == 0 && known != table.rows.end()) id = known->first;
    touched_[name].insert(id);
    if (Below(3) == 0) {
      table.rows.erase(id);
    } else {
      table.rows[id] = RandomBytes(random_, table.row_bytes());
    }
  }
}

void ModelTrainer::ChangeTables() {
  touched_.erase("guest");
  if (tables_.contains("guest") && Below(2) == 0) {
    tables_.erase("guest");
  } else {
    NewTable("guest", Below(2) == 0 ? SliceHash::kMix : SliceHash::kModulo);
  }
}

void ModelTrainer::Restore(const Tables& tables) {
  tables_ = tables;
  touched_.clear();
}

RankParts ModelTrainer::Share(const SaveSpec& spec,
                              const std::set<std::string>& as_changes) {
  RankParts parts{std::vector<RankContent>(spec.world_size),
                  std::vector<Deltas>(spec.world_size)};
  for (const auto& [name, table] : tables_) {
    for (RankContent& rank : parts.contents)
      rank.tables[name] = {table.slots, table.hash, {}};
    for (const auto& row : table.rows) {
      const uint32_t owner = OwnerOf(spec, table, row.first);
      parts.contents[owner].tables[name].rows.insert(row);
    }
    if (as_changes.contains(name)) AddChanges(spec, name, &parts.deltas);
  }
  return parts;
}

void ModelTrainer::AddChanges(const SaveSpec& spec, const std::string& name,
                              std::vector<Deltas>* deltas) {
  const TableContent& table = tables_.at(name);
  for (Deltas& rank : *deltas) rank[name];
  for (const int64_t id : touched_[name]) {
    const uint32_t owner = OwnerOf(spec, table, id);
    const auto row = table.rows.find(id);
    if (row == table.rows.end()) {
      (*deltas)[owner][name].erased.push_back(id);
      continue;
    }
    (*deltas)[owner][name].upserted.insert(*row);
    // Like a row that moved here from another rank.
    const auto other = static_cast<uint32_t>(Below(spec.world_size));
    if (spec.slice_bounds.empty() && other != owner && Below(3) == 0)
      (*deltas)[other][name].erased.push_back(id);
  }
}

}  // namespace ckptdb::testing
