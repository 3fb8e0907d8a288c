// Plans where the slots of a table come from; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_SLOT_PLAN_H_
#define CKPTDB_MANAGER_LOAD_SLOT_PLAN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ckptdb/manager/load/loaded_items.h"
#include "ckptdb/manager/load_rule.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// A registered slot, and where its values come from.
struct SlotSource {
  Slot to;
  std::optional<Slot> from = std::nullopt;  // in the step; none: it is filled
  size_t input = 0;                         // of SlotPlan::inputs
  std::string element = {};                 // that fills it, as `to` stores one
  EvolvePolicy::Table::Fill::Function fill = {};
  EvolvePolicy::Table::Convert convert = {};

  // Returns whether a row is handed on as the step has it.
  bool as_is() const {
    return from.has_value() && !convert && from->dtype == to.dtype;
  }
};

struct SlotPlan {
  std::vector<SlotSource> slots;
  std::vector<Slot> inputs;  // of the step, that are read; each once
  std::vector<DTypeCast> casts;
  std::vector<SlotChange> changes;
  std::string misfit;  // why the slots do not fit; empty if they do

  // Returns whether the inputs are the slots, in their order.
  bool direct() const;
};

// What a plan of slots is made of.
struct SlotInputs {
  const std::vector<Slot>& registered;
  const std::vector<Slot>& chosen;  // those of them that are loaded
  const std::vector<Slot>& there;   // in the step
  const EvolvePolicy::Table evolution;
  bool cast = false;  // allowed
};

SlotPlan PlanSlots(const SlotInputs& inputs);

// Says that what the step has is not what the model expects. With `can_cast` a
// rule that casts would load it.
std::string Misfit(absl::string_view expected, absl::string_view got,
                   bool can_cast = false);

// Returns "[embedding f32 x 16, last_step i64 x 1]".
std::string ColumnsOf(const std::vector<Slot>& slots);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_SLOT_PLAN_H_
