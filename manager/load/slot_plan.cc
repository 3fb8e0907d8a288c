// SPDX-License-Identifier: Apache-2.0
#include "manager/load/slot_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/base/nearest_name.h"
#include "schema/bytes/cast_in_range.h"

namespace ckptdb::internal {
namespace {

using SlotKind = SlotChange::Kind;

std::optional<Slot> FindSlot(const std::vector<Slot>& slots,
                             absl::string_view name) {
  const auto found =
      std::find_if(slots.begin(), slots.end(),
                   [&](const Slot& slot) { return slot.name == name; });
  return found == slots.end() ? std::nullopt : std::optional(*found);
}

// Returns the step's slot that a registered one is loaded from: the one with
// the same name, or otherwise the one that it is mapped to.
std::optional<Slot> FindSource(const SlotInputs& inputs,
                               const std::string& name) {
  std::optional<Slot> same = FindSlot(inputs.in_step, name);
  const auto old = inputs.evolution.oname.find(name);
  if (same.has_value() || old == inputs.evolution.oname.end()) return same;
  return FindSlot(inputs.in_step, old->second);
}

// Returns an element of the dtype with this value; nothing if the dtype cannot
// represent it.
std::optional<std::string> ElementOf(double value, DType dtype) {
  std::string element(DTypeBytes(dtype), '\0');
  if (CanCast(DType::kF64, dtype)) {
    CastWhileInRange(DType::kF64, &value, dtype, element.data(), 1);
    double stored = 0;
    CastWhileInRange(dtype, element.data(), DType::kF64, &stored, 1);
    // A finite number that is too large would become infinite.
    if (std::isfinite(stored) != std::isfinite(value)) return std::nullopt;
    return element;
  }
  constexpr double kMost = 9007199254740992;  // 2^53: exact up to here
  if (std::trunc(value) != value || std::abs(value) > kMost) {
    return std::nullopt;
  }
  const auto integer = static_cast<int64_t>(value);
  if (CastWhileInRange(DType::kI64, &integer, dtype, element.data(), 1) == 1) {
    return element;
  }
  return std::nullopt;
}

// Returns, as a question, the slot of the step with the nearest name, unless
// it is loaded under its own name; empty if none is similar.
std::string NearestSlot(const SlotInputs& inputs, const std::string& name) {
  std::vector<std::string> names;
  for (const Slot& slot : inputs.in_step) {
    if (!FindSlot(inputs.chosen, slot.name).has_value()) {
      names.push_back(slot.name);
    }
  }
  const std::string nearest = NearestSimilar(name, names);
  if (nearest.empty()) return "";
  return absl::StrCat(" (did you mean \"", nearest, "\"?)");
}

class Planner {
 public:
  explicit Planner(const SlotInputs& inputs) : inputs_(inputs) {}

  SlotPlan Run() {
    for (const Slot& slot : inputs_.chosen) {
      const std::optional<Slot> from = FindSource(inputs_, slot.name);
      SlotSource source{.to = slot, .from = from};
      if (from.has_value()) {
        Load(std::move(source));
      } else {
        Fill(std::move(source));
      }
    }
    AddDropped();
    const bool can_cast = wrong_.empty();
    if (!can_cast || (!plan_.casts.empty() && !inputs_.cast)) {
      plan_.misfit = Misfit(SlotList(inputs_.chosen), SlotList(inputs_.in_step),
                            can_cast ? inputs_.cast_remedy : "");
    }
    for (const std::string& each : wrong_) {
      absl::StrAppend(&plan_.misfit, "; ", each);
    }
    return std::move(plan_);
  }

 private:
  void Load(SlotSource source) {
    const Slot& from = *source.from;
    const Slot& to = source.to;
    const bool same = from.elements == to.elements && from.dtype == to.dtype;
    const auto convert = inputs_.evolution.convert.find(to.name);
    if (!same && convert != inputs_.evolution.convert.end() &&
        convert->second) {
      source.convert = convert->second;
      Change(SlotKind::kConverted, to.name, from.name);
    } else if (from.elements != to.elements || !CanCast(from.dtype, to.dtype)) {
      wrong_.push_back(absl::StrCat("slot \"", to.name, "\" is ",
                                    DTypeName(from.dtype), " x ", from.elements,
                                    " in the step; convert it by a function in "
                                    "EvolvePolicy::Table::convert"));
    } else {
      if (!same) {
        plan_.casts.push_back(
            {SlotKind::kCast, to.name, from.name, from.dtype, to.dtype});
      }
      if (from.name != to.name) {
        Change(SlotKind::kRenamed, to.name, from.name);
      }
    }
    source.input = InputOf(from);
    plan_.slots.push_back(std::move(source));
  }

  void Fill(SlotSource source) {
    const std::string& name = source.to.name;
    const EvolvePolicy::Table& evolution = inputs_.evolution;
    const auto old = evolution.oname.find(name);
    if (old != evolution.oname.end()) {
      wrong_.push_back(absl::StrCat("the step has neither slot \"", name,
                                    "\" nor \"", old->second,
                                    "\", which EvolvePolicy::Table::oname maps "
                                    "it to",
                                    NearestSlot(inputs_, old->second)));
      return;
    }
    const auto value = evolution.fill.find(name);
    const auto function = evolution.fill_with.find(name);
    if (function != evolution.fill_with.end()) source.fill = function->second;
    if (!source.fill && value == evolution.fill.end()) {
      wrong_.push_back(absl::StrCat(
          "slot \"", name, "\" is not in the step", NearestSlot(inputs_, name),
          "; set its values in "
          "EvolvePolicy::Table::fill, or its old name in "
          "EvolvePolicy::Table::oname"));
      return;
    }
    if (!source.fill) {
      const std::optional<std::string> element =
          ElementOf(value->second, source.to.dtype);
      if (!element.has_value()) {
        wrong_.push_back(absl::StrCat("slot \"", name, "\": the fill value ",
                                      value->second, " is not in ",
                                      DTypeName(source.to.dtype)));
      }
      source.element = element.value_or("");
    }
    Change(SlotKind::kFilled, name, "");
    plan_.slots.push_back(std::move(source));
  }

  // Adds the step's slots that no registered slot is loaded from.
  void AddDropped() {
    std::set<std::string> taken;
    for (const Slot& slot : inputs_.registered) {
      const std::optional<Slot> from = FindSource(inputs_, slot.name);
      if (from.has_value()) taken.insert(from->name);
    }
    for (const Slot& slot : inputs_.in_step) {
      if (!taken.contains(slot.name)) {
        Change(SlotKind::kDropped, "", slot.name);
      }
    }
  }

  // Returns the index of a slot in the inputs.
  size_t InputOf(const Slot& slot) {
    size_t i = 0;
    while (i < plan_.inputs.size() && plan_.inputs[i].name != slot.name) ++i;
    if (i == plan_.inputs.size()) plan_.inputs.push_back(slot);
    return i;
  }
  void Change(SlotKind kind, std::string slot, std::string source) {
    plan_.changes.push_back({kind, std::move(slot), std::move(source)});
  }

  const SlotInputs& inputs_;
  SlotPlan plan_;
  std::vector<std::string> wrong_;
};

}  // namespace

bool SlotPlan::direct() const {
  return inputs.size() == slots.size() &&
         std::all_of(slots.begin(), slots.end(),
                     [](const SlotSource& slot) { return slot.as_is(); });
}

SlotPlan PlanSlots(const SlotInputs& inputs) { return Planner(inputs).Run(); }

std::string Misfit(absl::string_view expected, absl::string_view got,
                   absl::string_view remedy) {
  return absl::StrCat("expected ", expected, ", got ", got,
                      remedy.empty() ? "" : "; ", remedy);
}

std::string SlotList(const std::vector<Slot>& slots) {
  const auto print = [](std::string* out, const Slot& slot) {
    absl::StrAppend(out, slot.name, " ", DTypeName(slot.dtype), " x ",
                    slot.elements);
  };
  return absl::StrCat("[", absl::StrJoin(slots, ", ", print), "]");
}

}  // namespace ckptdb::internal
