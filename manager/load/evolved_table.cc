// SPDX-License-Identifier: Apache-2.0
#include "manager/load/evolved_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/cast_in_range.h"
#include "schema/status.h"

namespace ckptdb::internal {

EvolvedTable::EvolvedTable(std::string name, std::vector<SlotSource> slots,
                           int threads, LiveTable* live)
    : name_(std::move(name)),
      slots_(std::move(slots)),
      live_(live),
      workers_(static_cast<size_t>(std::max(threads, 1))) {
  for (Worker& worker : workers_) {
    worker.values.resize(slots_.size());
    worker.slots.resize(slots_.size());
  }
}

absl::Status EvolvedTable::Consume(int worker, const RowSink::Batch& batch) {
  Worker& own = workers_[static_cast<size_t>(worker)];
  for (size_t s = 0; s < slots_.size(); ++s) {
    const SlotSource& slot = slots_[s];
    if (slot.as_is()) {
      own.slots[s] = batch.slots[slot.input];
      continue;
    }
    CKPTDB_RETURN_IF_ERROR(Annotate(Make(slot, batch, &own.values[s]),
                                    absl::StrCat("table \"", name_, "\"")));
    own.slots[s] = own.values[s].data();
  }
  return live_->Consume(worker, {batch.ids, own.slots});
}

// A worker's memory only grows, so most batches allocate nothing, and elements
// that fill a slot are written once.
absl::Status EvolvedTable::Make(const SlotSource& slot,
                                const RowSink::Batch& batch,
                                std::string* values) const {
  const size_t bytes = batch.ids.size() * slot.to.row_bytes();
  const size_t before = values->size();
  if (before < bytes) values->resize(bytes);
  if (slot.fill) {
    return Annotate(slot.fill(batch.ids, values->data()),
                    absl::StrCat("filling slot \"", slot.to.name, "\""));
  }
  if (!slot.from.has_value()) {
    for (size_t at = before; at < bytes; at += slot.element.size()) {
      values->replace(at, slot.element.size(), slot.element);
    }
    return absl::OkStatus();
  }
  if (!slot.convert) return Cast(slot, batch, values->data());
  return Annotate(slot.convert(*slot.from, batch.ids, batch.slots[slot.input],
                               values->data()),
                  absl::StrCat("converting slot \"", slot.to.name, "\""));
}

absl::Status EvolvedTable::Cast(const SlotSource& slot,
                                const RowSink::Batch& batch, char* out) const {
  const DType from = slot.from->dtype;
  const DType to = slot.to.dtype;
  const char* const in = batch.slots[slot.input];
  const size_t elements = batch.ids.size() * slot.to.elements;
  const size_t done = CastWhileInRange(from, in, to, out, elements);
  if (done == elements) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("row ", batch.ids[done / slot.to.elements], ", slot \"",
                   slot.to.name, "\", element ", done % slot.to.elements, ": ",
                   NotInRange(from, in + done * DTypeBytes(from), to)));
}

}  // namespace ckptdb::internal
