// SPDX-License-Identifier: Apache-2.0
// Records and reports as dictionaries, from which ckptdb/_records.py makes
// objects. Call all with the GIL.
#ifndef CKPTDB_PYTHON_BINDING_RECORDS_H_
#define CKPTDB_PYTHON_BINDING_RECORDS_H_

#include <nanobind/nanobind.h>

#include <vector>

#include "db/reader.h"
#include "manager/results.h"
#include "schema/types.h"

namespace ckptdb::python {

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
