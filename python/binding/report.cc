// SPDX-License-Identifier: Apache-2.0
#include "python/binding/report.h"

#include <nanobind/stl/string.h>

#include <string>

#include "absl/status/status.h"
#include "python/binding/errors.h"
#include "tools/report.h"

namespace ckptdb::python {

void BindReport(nanobind::module_& module) {
  module.def("write_report",
             [](const std::string& store, const std::string& out,
                const std::string& statistics, bool force) {
               tool::ReportOptions options;
               options.statistics_path = statistics;
               options.replace = force;
               absl::Status written;
               {
                 const ReleaseGil release;
                 written = tool::WriteReport(store, out, options);
               }
               Check(written);
             });
}

}  // namespace ckptdb::python
