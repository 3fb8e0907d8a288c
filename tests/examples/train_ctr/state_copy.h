// SPDX-License-Identifier: Apache-2.0
// Trainers for tests, and the copy of one's state into another by way of what
// a checkpoint holds, rows in reverse order.
#ifndef CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_STATE_COPY_H_
#define CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_STATE_COPY_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "schema/status.h"
#include "tests/support/status_matchers.h"
#include "train_ctr/reader.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

inline TrainerOptions SmallTrainer() {
  TrainerOptions options;
  options.batch = 32;
  options.dim = 4;
  options.hidden = {8};
  options.erase_after_steps = 16;
  return options;
}

inline std::unique_ptr<Trainer> MakeTrainer(
    const TrainerOptions& options, const GeneratedLogOptions& log = {}) {
  auto reader = Reader::Create(NewGeneratedLog(log).value(), 64, options.seed);
  return Trainer::Create(options, std::move(reader).value()).value();
}

// The tables of a trainer whose model is in host memory.
inline std::vector<EmbeddingTable>& TablesOf(const Trainer& trainer) {
  return static_cast<HostRows&>(*trainer.model()->rows()).tables();
}

// Evaluates over the held-out tail.
inline absl::StatusOr<Evaluation> Evaluate(Trainer* trainer) {
  EvaluationProgress progress = trainer->BeginEvaluation();
  for (bool more = true; more;) {
    CKPTDB_ASSIGN_OR_RETURN(more, trainer->EvaluateBatch(&progress));
  }
  return progress.metrics.Result();
}

// The digest of a trainer that is alone.
inline std::string StateDigest(Trainer& trainer) {
  const absl::StatusOr<StateView> state = trainer.View();
  return state.ok() ? StateDigest(*state) : state.status().ToString();
}

// The digest of one table.
inline std::string TableDigest(const EmbeddingTable& table) {
  return StateDigest(StateView{{&table}, {}, ""});
}

inline void CopyRow(const EmbeddingTable& from, int64_t id,
                    EmbeddingTable* to) {
  const EmbeddingTable::Row row = from.Find(id).value();
  const auto copy = to->mutable_row(to->Insert(id));
  std::copy_n(from.embedding(row), from.dim(), copy.embedding);
  std::copy_n(from.adagrad_sum(row), from.dim(), copy.adagrad_sum);
  *copy.freq = from.freq(row);
  *copy.last_step = from.last_step(row);
}

inline void CopyTable(const EmbeddingTable& from, EmbeddingTable* to) {
  to->state()->Clear();
  std::vector<int64_t> ids;
  from.state()->ForEach(
      [&](int64_t id, EmbeddingTable::Row) { ids.push_back(id); });
  std::reverse(ids.begin(), ids.end());
  for (const int64_t id : ids) CopyRow(from, id, to);
}

inline void CopyState(Trainer& from, Trainer* to) {
  ASSERT_OK(to->RestoreProgress(from.progress()));
  const Mlp::State& source = from.model()->mlp()->state();
  Mlp::State& target = to->model()->mlp()->state();
  target.adam_step = source.adam_step;
  for (size_t p = 0; p < source.parameters.size(); ++p) {
    const Mlp::Parameter& parameter = source.parameters[p];
    ASSERT_EQ(parameter.name, target.parameters[p].name);
    std::copy_n(parameter.values, parameter.count, target.parameters[p].values);
    std::copy_n(parameter.m, parameter.count, target.parameters[p].m);
    std::copy_n(parameter.v, parameter.count, target.parameters[p].v);
  }
  for (size_t t = 0; t < TablesOf(from).size(); ++t) {
    CopyTable(TablesOf(from)[t], &TablesOf(*to)[t]);
  }
}

}  // namespace train_ctr

#endif  // CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_STATE_COPY_H_
