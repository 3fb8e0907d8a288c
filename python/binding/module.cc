// SPDX-License-Identifier: Apache-2.0
// The extension ckptdb._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "ckptdb/version.h"
#include "python/binding/devices.h"
#include "python/binding/errors.h"
#include "python/binding/manager.h"
#include "python/binding/pending_save.h"
#include "python/binding/policies.h"
#include "python/binding/ranks.h"
#include "python/binding/reader.h"
#include "python/binding/records.h"
#include "python/binding/remote.h"
#include "python/binding/report.h"
#include "python/binding/store.h"
#include "python/binding/tables.h"

NB_MODULE(_core, module) {
  using namespace ckptdb::python;
  // The interpreter's end frees objects that callbacks and exceptions refer to
  // in any order; what is left then is not a leak.
  nanobind::set_leak_warnings(false);
  BindErrors(module);
  BindDevices(module);
  BindPolicies(module);
  BindRecords(module);
  BindTables(module);
  BindReader(module);
  BindPendingSave(module);
  BindRanks(module);
  BindManager(module);
  BindStore(module);
  BindRemote(module);
  BindReport(module);
  module.def("version", [] { return std::string(ckptdb::LibraryVersion()); });
}
