// SPDX-License-Identifier: Apache-2.0
#include "python/binding/records.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "python/binding/errors.h"

namespace ckptdb::python {
namespace {

std::string Text(absl::string_view text) { return std::string(text); }

nb::object StatusText(const absl::Status& status) {
  if (status.ok()) return nb::none();
  return nb::cast(status.ToString());
}

std::string KindOf(const SaveResult& result) {
  return Text(StepKindName(result.kind));
}

nb::dict TensorDict(const Item& item) {
  nb::dict dict;
  dict["kind"] = "tensor";
  dict["name"] = item.name;
  dict["dtype"] = Text(DTypeName(item.dtype));
  const Shape& shape =
      item.global_shape.empty() ? item.shape : item.global_shape;
  dict["shape"] = nb::tuple(nb::cast(shape));
  dict["bytes"] = item.raw_bytes;
  dict["stored_bytes"] = item.stored_bytes;
  return dict;
}

nb::dict TableDict(const std::string& name, const StepReader::TableSpec& spec) {
  nb::dict dict;
  dict["kind"] = "table";
  dict["name"] = name;
  dict["rows"] = spec.rows;
  dict["exact"] = spec.exact;
  dict["slots"] = SlotsOf(spec.slots);
  dict["sharding"] = DescribeSharding(spec.sharding, spec.sharding_name);
  return dict;
}

}  // namespace

double SecondsOf(int64_t micros) { return static_cast<double>(micros) / 1e6; }

nb::object StepOrNone(int64_t step) {
  if (step < 0) return nb::none();
  return nb::cast(step);
}

nb::object MessageOrNone(const absl::Status& status) {
  if (status.ok()) return nb::none();
  return nb::cast(Text(status.message()));
}

nb::list SlotsOf(const std::vector<Slot>& slots) {
  nb::list list;
  for (const Slot& slot : slots) {
    list.append(nb::make_tuple(slot.name, Text(DTypeName(slot.dtype)),
                               slot.elements, Text(CodecName(slot.codec))));
  }
  return list;
}

nb::dict ToDict(const StepRecord& record) {
  nb::dict dict;
  AddStep(record, &dict);
  dict["chain"] = record.chain.size();
  dict["metrics"] = nb::cast(record.metrics);
  dict["user_metadata"] = nb::cast(record.user_metadata);
  dict["parent"] =
      record.has_parent ? nb::cast(record.parent.step) : nb::none();
  dict["world_size"] = record.world_size;
  dict["items"] = record.items;
  dict["rows"] = record.rows;
  dict["bytes"] = record.raw_bytes;
  dict["own_bytes"] = record.exclusive_bytes;
  dict["save_seconds"] = SecondsOf(record.save_micros);
  return dict;
}

nb::dict ToDict(const SaveReport& report) {
  nb::dict dict;
  dict["step"] = report.step;
  dict["save_kind"] = Text(SaveKindName(report.save_kind));
  dict["reason"] = report.reason;
  dict["error"] = StatusText(report.status);
  dict["result"] = report.status.ok() ? nb::cast(report.result) : nb::none();
  dict["metrics"] = nb::cast(report.metrics);
  dict["retired_steps"] = nb::cast(report.retired_steps);
  dict["copied_bytes"] = report.copied_bytes;
  dict["wait_seconds"] = SecondsOf(report.wait_micros);
  dict["blocking_seconds"] = SecondsOf(report.blocking_micros);
  dict["stage_seconds"] = SecondsOf(report.stage_micros);
  dict["total_seconds"] = SecondsOf(report.total_micros);
  dict["shipping"] = report.shipping.has_value()
                         ? nb::object(ToDict(*report.shipping))
                         : nb::none();
  return dict;
}

nb::dict ToDict(const ShippingStatistics& statistics) {
  nb::dict dict;
  dict["waiting"] = statistics.waiting;
  dict["shipped_steps"] = statistics.shipped_steps;
  dict["shipped_bytes"] = statistics.shipped_bytes;
  dict["newest_shipped"] = StepOrNone(statistics.newest_shipped);
  dict["lag"] = absl::ToDoubleSeconds(statistics.lag);
  dict["failures"] = statistics.failures;
  dict["last_error"] = MessageOrNone(statistics.last_error);
  return dict;
}

nb::dict ToDict(const ShipReport& report) {
  nb::dict dict;
  dict["steps"] = report.steps;
  dict["data_files"] = report.data_files;
  dict["data_bytes"] = report.data_bytes;
  dict["lag"] = absl::ToDoubleSeconds(report.lag);
  return dict;
}

nb::dict ToDict(const LoadSummary::LoadedRule& rule) {
  using Outcome = LoadSummary::LoadedItem::Outcome;
  nb::list items;
  for (const LoadSummary::LoadedItem& item : rule.items) {
    nb::dict dict;
    dict["category"] = item.category;
    dict["name"] = item.name;
    dict["source"] = item.source;
    dict["loaded"] = item.outcome == Outcome::kLoaded;
    dict["missing"] = item.outcome == Outcome::kMissing;
    dict["detail"] = item.detail;
    dict["bytes"] = item.bytes;
    dict["rows"] = item.rows;
    items.append(dict);
  }
  nb::dict dict;
  dict["path"] = rule.path;
  dict["step"] = rule.step.has_value() ? nb::cast(*rule.step) : nb::none();
  dict["items"] = items;
  dict["unexpected"] = nb::cast(rule.unexpected);
  dict["unmatched"] = nb::cast(rule.unmatched);
  dict["note"] = rule.note;
  return dict;
}

nb::dict ToDict(const RestoreReport& report) {
  nb::dict dict;
  dict["fresh"] = report.fresh;
  dict["step"] = report.fresh ? nb::none() : nb::cast(report.version.step);
  dict["store"] = report.store;
  dict["record"] =
      report.fresh ? nb::none() : nb::object(ToDict(report.record));
  dict["loaded"] = ToDict(report.loaded);
  dict["damaged_steps"] = nb::cast(report.damaged_steps);
  dict["incremental"] = report.incremental;
  dict["loaded_bytes"] = report.loaded_bytes;
  dict["loaded_rows"] = report.loaded_rows;
  dict["total_seconds"] = SecondsOf(report.total_micros);
  dict["text"] = report.ToString();
  return dict;
}

nb::list ItemsOf(const StepReader& step) {
  nb::list list;
  std::set<std::pair<Item::Kind, std::string>> seen;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      const bool first = seen.emplace(item.kind, item.name).second;
      if (item.kind == Item::Kind::kBlob) {
        nb::dict dict;
        dict["kind"] = "blob";
        dict["name"] = item.name;
        dict["rank"] = rank.rank;
        dict["bytes"] = item.raw_bytes;
        list.append(dict);
      } else if (first && item.kind == Item::Kind::kTensor) {
        list.append(TensorDict(item.global_shape.empty()
                                   ? item
                                   : Check(step.FindTensor(item.name))));
      } else if (first) {
        list.append(TableDict(item.name, Check(step.FindTable(item.name))));
      }
    }
  }
  return list;
}

void BindRecords(nb::module_& module) {
  nb::class_<SaveResult>(module, "SaveResult", "What a save has stored.")
      .def_prop_ro(
          "step", [](const SaveResult& self) { return self.version.step; },
          "The step.")
      .def_prop_ro(
          "attempt",
          [](const SaveResult& self) { return self.version.attempt; },
          "The number of the save in the store.")
      .def_prop_ro(
          "kind", [](const SaveResult& self) { return KindOf(self); },
          "\"full\" or \"delta\".")
      .def_ro("bytes", &SaveResult::raw_bytes, "The bytes of all items.")
      .def_ro("own_bytes", &SaveResult::exclusive_bytes,
              "The bytes that this save has written.")
      .def_ro("borrowed_bytes", &SaveResult::borrowed_bytes,
              "The bytes of older steps that it refers to.")
      .def_ro("deltas", &SaveResult::deltas,
              "The number of deltas in the chain.")
      .def("__repr__", [](const SaveResult& self) {
        return absl::StrCat("SaveResult(step ", self.version.step, ": ",
                            KindOf(self), ", ", self.raw_bytes, " bytes, ",
                            self.exclusive_bytes, " written)");
      });
}

nb::list ToList(const std::vector<StepRecord>& records) {
  nb::list list;
  for (const StepRecord& record : records) list.append(ToDict(record));
  return list;
}

}  // namespace ckptdb::python
