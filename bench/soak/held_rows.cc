// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/held_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ckptdb::soak {
namespace {

absl::Status Differs(absl::string_view where, int64_t id,
                     absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(where, ": table \"", kTable, "\", id ", id, ": ", what));
}

}  // namespace

absl::Status HeldRows::Clear() {
  rows_.clear();
  return absl::OkStatus();
}

absl::Status HeldRows::Consume(int /*worker*/, const RowSink::Batch& batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t r = 0; r < batch.ids.size(); ++r) {
    Row& row = rows_[batch.ids[r]];
    for (size_t s = 0; s < slots_.size(); ++s) {
      const bool embedding = slots_[s] == kEmbeddingSlot;
      const size_t bytes = embedding ? sizeof row.embedding : sizeof(float);
      void* const to = embedding ? static_cast<void*>(row.embedding.data())
                                 : &row.adagrad_sum;
      std::memcpy(to, batch.slots[s] + r * bytes, bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status HeldRows::Erase(int /*worker*/, absl::Span<const int64_t> ids) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const int64_t id : ids) rows_.erase(id);
  return absl::OkStatus();
}

absl::Status CompareRows(const Rows& found, const Rows& expected,
                         absl::string_view where) {
  const auto [is, should] = std::mismatch(found.begin(), found.end(),
                                          expected.begin(), expected.end());
  if (is == found.end() && should == expected.end()) return absl::OkStatus();
  if (should == expected.end() ||
      (is != found.end() && is->first < should->first)) {
    return Differs(where, is->first, "the row should not be there");
  }
  if (is == found.end() || should->first < is->first) {
    return Differs(where, should->first, "the row is missing");
  }
  return Differs(where, is->first, "the row has other values");
}

}  // namespace ckptdb::soak
