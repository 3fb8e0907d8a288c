#include "train_ctr/digest.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"
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

}  // namespace

uint64_t TableDigest(const EmbeddingTable& table) {
  uint64_t sum = table.rows();
  table.state()->ForEach([&](int64_t id, EmbeddingTable::Row row) {
    sum += RowDigest(table, id, row);
  });
  return Hash(table.name().data(), table.name().size(), sum);
}

std::string StateDigest(const StateView& state) {
  uint64_t sum = 0;
  for (const EmbeddingTable* table : state.tables) sum += TableDigest(*table);
  for (const TensorView& tensor : state.tensors) {
    const uint64_t name = Hash(tensor.name.data(), tensor.name.size(), 0);
    sum += Hash(tensor.values, tensor.bytes(), name);
  }
  const uint64_t digest =
      Hash(state.progress.data(), state.progress.size(), sum);
  return absl::StrCat(absl::Hex(digest, absl::kZeroPad16));
}

std::string StateDigest(Trainer& trainer) {
  StateView state;
  for (const EmbeddingTable& table : trainer.tables()) {
    state.tables.push_back(&table);
  }
  state.tensors = trainer.tensors();
  state.progress = trainer.progress();
  return StateDigest(state);
}

}  // namespace train_ctr
