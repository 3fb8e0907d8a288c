// SPDX-License-Identifier: Apache-2.0
// A trainer that changes tables at random, and knows which rows it changed
// since it last saved or restored them; for tests that compare with a model.
#ifndef CKPTDB_TESTS_DB_MODEL_TRAINER_H_
#define CKPTDB_TESTS_DB_MODEL_TRAINER_H_

#include <algorithm>

#include "db/options.h"
#include "tests/db/delta_content.h"

namespace ckptdb::testing {

using Tables = std::map<std::string, TableContent>;

// What the ranks of a save hold, and what they say of changes.
struct RankParts {
  std::vector<RankContent> contents;
  std::vector<Deltas> deltas;
};

class ModelTrainer {
 public:
  explicit ModelTrainer(std::mt19937_64* random);
  const Tables& tables() const { return tables_; }
  // Upserts and erases rows of a table, some of them again and again.
  void ChangeRows();
  // A third table comes, always with other columns, or goes.
  void ChangeTables();
  void Restore(const Tables& tables);
  void Forget() { touched_.clear(); }
  // As the ranks of `spec` share the rows: by its slices, or by a rule of the
  // trainer's own. `as_changes`: tables that are given with their changes.
  RankParts Share(const SaveSpec& spec,
                  const std::set<std::string>& as_changes);

 private:
  uint64_t Below(uint64_t limit) { return (*random_)() % limit; }
  void NewTable(const std::string& name, SliceHash hash);
  void AddChanges(const SaveSpec& spec, const std::string& name,
                  std::vector<Deltas>* deltas);
  std::mt19937_64* const random_;
  uint64_t new_tables_ = 0;
  Tables tables_;
  std::map<std::string, std::set<int64_t>> touched_;
};

// What a store of delta saves must hold, as plain values: every state that was
// ever saved, how they come from one another, and which of them are steps.
//
//   DeltaModel model;
//   model.states[saved.version.attempt] = {saved.version, parent, tables};
//   model.steps[8] = {saved.version.attempt};
//   model.WayOf(from, to, "user") == Way::kMust

inline bool SameSlots(const TableContent& a, const TableContent& b) {
  return a.slots == b.slots && a.hash == b.hash;
}

// What one save made true; it never changes. Known by its attempt.
struct SavedState {
  Version version;
  uint32_t parent = 0;  // attempt of the state it continues from; 0: none
  Tables tables;
  std::set<std::string> whole;  // tables of which all rows were saved
  uint32_t world_size = 1;
  std::string blob;
};

struct SavedStep {
  uint32_t state = 0;
  bool pinned = false;
  bool quarantined = false;
  bool folded = false;
};

// Whether a table can be followed from one state to another.
enum class Way { kMust, kMay, kNever };

struct DeltaModel {
  std::map<uint32_t, SavedState> states;
  std::map<int64_t, SavedStep> steps;
  const SavedState& StateAt(int64_t step) const {
    return states.at(steps.at(step).state);
  }
  bool IsStep(uint32_t state) const {
    return std::any_of(steps.begin(), steps.end(), [&](const auto& step) {
      return step.second.state == state;
    });
  }
  uint32_t Newest() const {
    uint32_t newest = 0;
    for (const auto& [number, step] : steps) {
      if (!step.quarantined) newest = std::max(newest, step.state);
    }
    return newest;
  }
  // The state and all that it comes from.
  std::vector<uint32_t> LineOf(uint32_t state) const {
    std::vector<uint32_t> line;
    for (; state != 0; state = states.at(state).parent) line.push_back(state);
    return line;
  }
  std::set<int64_t> DescendantsOf(uint32_t state) const {
    std::set<int64_t> descendants;
    for (const auto& [number, step] : steps) {
      for (uint32_t at = states.at(step.state).parent; at != 0;
           at = states.at(at).parent) {
        if (at == state) descendants.insert(number);
      }
    }
    return descendants;
  }
  Way WayOf(uint32_t from, uint32_t to, const std::string& table) const {
    if (!states.at(from).tables.contains(table)) return Way::kNever;
    if (from == to) return IsStep(from) ? Way::kMust : Way::kMay;
    const std::vector<uint32_t> old_line = LineOf(from);
    const std::vector<uint32_t> new_line = LineOf(to);
    const auto common = std::find_first_of(new_line.begin(), new_line.end(),
                                           old_line.begin(), old_line.end());
    if (common == new_line.end()) return Way::kNever;
    std::vector<uint32_t> members(new_line.begin(), common);
    members.insert(members.end(), old_line.begin(),
                   std::find(old_line.begin(), old_line.end(), *common));
    bool all_steps = IsStep(from) && IsStep(*common);
    for (const uint32_t member : members) {
      const SavedState& state = states.at(member);
      const bool delta =
          state.tables.contains(table) && !state.whole.contains(table);
      if (!delta) return Way::kNever;
      all_steps = all_steps && IsStep(member);
    }
    return all_steps ? Way::kMust : Way::kMay;
  }
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_MODEL_TRAINER_H_
