// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/example.h"

#include <xxhash.h>

#include "train_ctr/random.h"

namespace train_ctr {

void Batch::CopyTo(size_t begin, size_t end, Batch* part) const {
  const size_t fields = labels.empty() ? 0 : ids.size() / labels.size();
  part->labels.assign(labels.data() + begin, labels.data() + end);
  part->ids.assign(ids.data() + begin * fields, ids.data() + end * fields);
}

int64_t HashFeature(size_t field, absl::string_view value) {
  return static_cast<int64_t>(
      XXH3_64bits_withSeed(value.data(), value.size(), field));
}

int64_t HashFeature(size_t field, int64_t value) {
  return static_cast<int64_t>(Mix(field, static_cast<uint64_t>(value)));
}

}  // namespace train_ctr
