// SPDX-License-Identifier: Apache-2.0
// Plans where a table's slots are loaded from; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_SLOT_PLAN_H_
#define CKPTDB_MANAGER_LOAD_SLOT_PLAN_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "manager/load/loaded_items.h"
#include "manager/load_rule.h"
#include "schema/types.h"

namespace ckptdb::internal {

// A registered slot, and the source of its values.
struct SlotSource {
  Slot to;
  std::optional<Slot> from = std::nullopt;  // in the step; unset: filled
  size_t input = 0;                         // index in SlotPlan::inputs
  std::string element = {};                 // fills it, encoded as `to`
  std::function<absl::Status(absl::Span<const int64_t> ids, char* rows)> fill =
      {};
  std::function<absl::Status(const Slot& from, absl::Span<const int64_t> ids,
                             const char* rows, char* converted)>
      convert = {};

  // Returns whether values are passed on as they are in the step.
  bool as_is() const {
    return from.has_value() && !convert && from->dtype == to.dtype;
  }
};

struct SlotPlan {
  std::vector<SlotSource> slots;
  std::vector<Slot> inputs;  // the step's slots to read, each once
  std::vector<SlotChange> casts;
  std::vector<SlotChange> changes;
  std::string misfit;  // why the slots do not fit; empty if they do

  // Returns whether the inputs equal the slots, in order.
  bool direct() const;
};

// The inputs of a plan.
struct SlotInputs {
  const std::vector<Slot>& registered;
  const std::vector<Slot>& chosen;  // the registered ones to load
  const std::vector<Slot>& in_step;
  const EvolvePolicy::Table evolution;
  bool cast = false;  // whether casts are allowed
  // How to allow casts; outlives the plan.
  const absl::string_view cast_remedy = {};
};

SlotPlan PlanSlots(const SlotInputs& inputs);

// Describes a mismatch between the model and the step, with its remedy if any.
std::string Misfit(absl::string_view expected, absl::string_view got,
                   absl::string_view remedy = {});

// Returns "[embedding f32 x 16, last_step i64 x 1]".
std::string SlotList(const std::vector<Slot>& slots);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_SLOT_PLAN_H_
