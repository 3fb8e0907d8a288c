#include "train_ctr/digest.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

uint64_t Hash(const void* bytes, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

uint64_t RowDigest(const EmbeddingTable::Chunk& chunk, size_t row, size_t dim) {
  const size_t bytes = dim * sizeof(float);
  uint64_t digest = Mix(static_cast<uint64_t>(chunk.ids[row]));
  digest = Hash(chunk.embedding + row * dim, bytes, digest);
  digest = Hash(chunk.adagrad_sum + row * dim, bytes, digest);
  digest = Mix(digest, static_cast<uint64_t>(chunk.freq[row]));
  return Mix(digest, static_cast<uint64_t>(chunk.last_step[row]));
}

}  // namespace

uint64_t TableDigest(const EmbeddingTable& table) {
  uint64_t sum = table.rows();
  for (size_t c = 0; c < table.chunks(); ++c) {
    const EmbeddingTable::Chunk chunk = table.chunk(c);
    for (size_t row = 0; row < chunk.rows; ++row) {
      sum += RowDigest(chunk, row, table.dim());
    }
  }
  return Hash(table.name().data(), table.name().size(), sum);
}

std::string StateDigest(Trainer& trainer) {
  uint64_t digest = 0;
  for (const EmbeddingTable& table : trainer.tables()) {
    digest = Mix(digest, TableDigest(table));
  }
  for (const TensorView& tensor : trainer.tensors()) {
    digest = Hash(tensor.name.data(), tensor.name.size(), digest);
    digest = Hash(tensor.values, tensor.bytes(), digest);
  }
  const std::string progress = trainer.progress();
  digest = Hash(progress.data(), progress.size(), digest);
  return absl::StrCat(absl::Hex(digest, absl::kZeroPad16));
}

}  // namespace train_ctr
