// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/option_checks.h"
#include "db/base/row_block.h"
#include "manager/tables.h"

namespace ckptdb::internal {
namespace {

absl::Status CheckOptions(const std::vector<Slot>& slots,
                          const TableOptions& options) {
  CKPTDB_RETURN_IF_ERROR(
      CheckThreads("TableOptions::threads", options.threads));
  for (const std::string& name : options.optimizer_slots) {
    const bool known =
        std::any_of(slots.begin(), slots.end(),
                    [&](const Slot& slot) { return slot.name == name; });
    if (known) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("TableOptions::optimizer_slots names \"", name,
                     "\", which is not a slot of the table"));
  }
  return absl::OkStatus();
}

}  // namespace

// A constructor returns no status, so the first error is stored for AddTable to
// return.
AdaptedTable::AdaptedTable(absl::Status made, std::vector<Slot> slots,
                           TableOptions options)
    : slots_(std::move(slots)),
      options_(std::make_shared<const TableOptions>(std::move(options))),
      status_(std::move(made)) {
  status_.Update(CheckSlots(slots_));
  status_.Update(CheckOptions(slots_, *options_));
}

SliceHash AdaptedTable::slice_hash() const { return options_->slice_hash; }
std::vector<std::string> AdaptedTable::optimizer_slots() const {
  return options_->optimizer_slots;
}

std::optional<std::vector<size_t>> AdaptedTable::FindSlots(
    absl::Span<const std::string> names) const {
  if (!status_.ok()) return std::nullopt;
  std::vector<size_t> found;
  for (const std::string& name : names) {
    const auto slot =
        std::find_if(slots_.begin(), slots_.end(),
                     [&](const Slot& each) { return each.name == name; });
    if (slot == slots_.end()) return std::nullopt;
    found.push_back(static_cast<size_t>(slot - slots_.begin()));
  }
  return found;
}

}  // namespace ckptdb::internal
