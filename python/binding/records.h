// SPDX-License-Identifier: Apache-2.0
// Records and reports as dictionaries, from which ckptdb/_records.py makes
// objects. Call all with the GIL.
#ifndef CKPTDB_PYTHON_BINDING_RECORDS_H_
#define CKPTDB_PYTHON_BINDING_RECORDS_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/reader.h"
#include "manager/results.h"
#include "schema/types.h"

namespace ckptdb::python {

double SecondsOf(int64_t micros);
// Returns the step, or None if the number is negative.
nanobind::object StepOrNone(int64_t step);
// Returns the message of an error, or None if the status is OK.
nanobind::object MessageOrNone(const absl::Status& status);

// Adds the fields that records of a store and of a remote have in common.
template <typename Record>
void AddStep(const Record& record, nanobind::dict* dict) {
  const absl::string_view kind = StepKindName(record.kind);
  (*dict)["step"] = record.version.step;
  (*dict)["attempt"] = record.version.attempt;
  (*dict)["committed"] = SecondsOf(record.committed_at_micros);
  (*dict)["kind"] = std::string(kind);
  (*dict)["ephemeral"] = record.ephemeral;
  (*dict)["pinned"] = record.pinned;
  (*dict)["quarantined"] = record.quarantined;
}

nanobind::dict ToDict(const StepRecord& record);
nanobind::dict ToDict(const SaveReport& report);
nanobind::dict ToDict(const ShippingStatistics& statistics);
nanobind::dict ToDict(const ShipReport& report);
nanobind::dict ToDict(const LoadSummary::LoadedRule& rule);
nanobind::dict ToDict(const RestoreReport& report);
// Whole tensors and tables, and the blobs of each rank, by kind and name.
nanobind::list ItemsOf(const StepReader& step);
// (name, dtype, elements, codec) of each slot.
nanobind::list SlotsOf(const std::vector<Slot>& slots);
nanobind::list ToList(const std::vector<StepRecord>& records);

void BindRecords(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_RECORDS_H_
