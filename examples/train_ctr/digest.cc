// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/digest.h"

#include <ckptdb/schema/status.h>
#include <xxhash.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "ranks/ranks.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

uint64_t Hash(const void* bytes, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

uint64_t RowDigest(const EmbeddingTable& table, int64_t id,
                   EmbeddingTable::Row row) {
  const size_t bytes = table.dim() * sizeof(float);
  uint64_t digest = Mix(static_cast<uint64_t>(id));
  digest = Hash(table.embedding(row), bytes, digest);
  digest = Hash(table.adagrad_sum(row), bytes, digest);
  digest = Mix(digest, static_cast<uint64_t>(table.freq(row)));
  return Mix(digest, static_cast<uint64_t>(table.last_step(row)));
}

// The sum of the digests of the rows of each table, and of their number.
std::vector<uint64_t> RowSums(const StateView& state) {
  std::vector<uint64_t> sums;
  for (const EmbeddingTable* table : state.tables) {
    uint64_t& sum = sums.emplace_back(table->rows());
    table->state()->ForEach([&](int64_t id, EmbeddingTable::Row row) {
      sum += RowDigest(*table, id, row);
    });
  }
  return sums;
}

std::string DigestOf(const StateView& state,
                     const std::vector<uint64_t>& row_sums) {
  uint64_t sum = 0;
  for (size_t t = 0; t < row_sums.size(); ++t) {
    const std::string& name = state.tables[t]->name();
    sum += Hash(name.data(), name.size(), row_sums[t]);
  }
  for (const auto& [name, bytes] : state.tensors) {
    sum += Hash(bytes.data(), bytes.size(), Hash(name.data(), name.size(), 0));
  }
  sum = Hash(state.progress.data(), state.progress.size(), sum);
  return absl::StrCat(absl::Hex(sum, absl::kZeroPad16));
}

}  // namespace

std::string StateDigest(const StateView& state) {
  return DigestOf(state, RowSums(state));
}

absl::StatusOr<std::string> SharedDigest(Trainer& trainer) {
  CKPTDB_ASSIGN_OR_RETURN(const StateView state, trainer.View());
  std::vector<uint64_t> sums(state.tables.size(), 0);
  CKPTDB_ASSIGN_OR_RETURN(
      const examples::PerRank<uint64_t> of_ranks,
      examples::AllGather(trainer.ranks(), "digests", RowSums(state)));
  for (const std::vector<uint64_t>& of_rank : of_ranks) {
    for (size_t t = 0; t < sums.size(); ++t) sums[t] += of_rank.at(t);
  }
  return DigestOf(state, sums);
}

}  // namespace train_ctr
