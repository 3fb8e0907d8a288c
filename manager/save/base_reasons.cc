// SPDX-License-Identifier: Apache-2.0
#include "manager/save/base_reasons.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "manager/ranks/messages.h"
#include "manager/state/registered_state.h"
#include "schema/records/staged.h"
#include "schema/records/table_schema.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Returns the reason why a table is saved in full regardless of its changes;
// empty if its changes may be saved.
std::string WhyInFull(const StepRecord::Rank* parent_tables,
                      const RegisteredTable& table) {
  if (parent_tables == nullptr) return "the save has no parent";
  return WhyFull(*parent_tables, table.name, table.state->slots(),
                 table.state->slice_hash());
}

// Returns this rank's reasons.
absl::StatusOr<BaseReasons> OwnBases(const BaseInputs& inputs, bool is_owner) {
  BaseReasons bases = IncompleteTables(inputs.model, inputs.changes);
  // The owner's rows of a replicated table are saved, so only the owner's marks
  // determine whether changes suffice.
  for (size_t t = 0; t < inputs.shardings.size() && !is_owner; ++t) {
    if (inputs.shardings[t].kind() != Item::Sharding::kReplicated) continue;
    bases.erase(inputs.model.tables()[t].name);
  }
  std::shared_ptr<const StepRecord::Rank> parent_tables;
  if (inputs.has_parent) {
    bases.insert(inputs.differing_tables.begin(),
                 inputs.differing_tables.end());
    CKPTDB_RETURN_IF_ERROR(inputs.ticket.status());
    parent_tables = inputs.ticket->record().parent_tables;
  }
  for (const RegisteredTable& table : inputs.model.tables()) {
    // The general reason is more informative than an incomplete set of changes.
    if (inputs.has_parent && !inputs.reason.empty()) {
      bases[table.name] = inputs.reason;
      continue;
    }
    std::string why = WhyInFull(parent_tables.get(), table);
    if (!why.empty()) bases.emplace(table.name, std::move(why));
  }
  return bases;
}

// Merges the reasons of all ranks into `bases`.
absl::Status Merge(const std::vector<std::string>& parts, BaseReasons* bases) {
  for (const std::string& part : parts) {
    BaseReasons other;
    CKPTDB_RETURN_IF_ERROR(Decode(part, &other));
    bases->merge(other);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BaseReasons> AgreeOnBases(const BaseInputs& inputs,
                                         Coordinator* ranks, uint32_t attempt,
                                         absl::Duration deadline,
                                         absl::Status* own) {
  const absl::StatusOr<BaseReasons> bases = CallGuarded("TableState", [&] {
    return OwnBases(inputs, ranks->rank() == kOwnerRank);
  });
  own->Update(bases.status());
  // Without a parent, all ranks have the same reason for each table.
  if (ranks->world_size() == 1 || !inputs.has_parent) {
    return bases.value_or(BaseReasons());
  }
  const std::string tag = absl::StrCat("bases of attempt ", attempt);
  const auto parts =
      ranks->Gather(tag, Encode(bases.value_or(BaseReasons())), deadline);
  AgreedBases agreed;
  agreed.status = parts.ok() ? Merge(*parts, &agreed.bases) : parts.status();
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string told,
      ranks->Tell(tag, Encode(agreed), AfterGather(*ranks, deadline)));
  CKPTDB_RETURN_IF_ERROR(Decode(told, &agreed));
  CKPTDB_RETURN_IF_ERROR(agreed.status);
  return agreed.bases;
}

}  // namespace ckptdb::internal
