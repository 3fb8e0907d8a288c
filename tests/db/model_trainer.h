// SPDX-License-Identifier: Apache-2.0
// A trainer that changes tables at random, and knows which rows it changed
// since it last saved or restored them; for tests that compare with a model.
#ifndef CKPTDB_TESTS_DB_MODEL_TRAINER_H_
#define CKPTDB_TESTS_DB_MODEL_TRAINER_H_

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

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
  // With two tables, one of each slice hash.
  explicit ModelTrainer(std::mt19937_64* random);

  const Tables& tables() const { return tables_; }

  // Upserts and erases rows of a table, some of them again and again.
  void ChangeRows();
  // A third table comes, always with other columns, or goes.
  void ChangeTables();
  void Restore(const Tables& tables);
  // What is known to be changed is saved.
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

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_MODEL_TRAINER_H_
