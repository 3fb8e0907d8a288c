// SPDX-License-Identifier: Apache-2.0
#include "python/binding/report.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "db/reader.h"
#include "python/binding/errors.h"
#include "schema/status.h"
#include "tools/report/page.h"
#include "tools/report/report_data.h"

namespace ckptdb::python {
namespace {

absl::Status WriteReportOf(const std::string& store, const std::string& out,
                           const std::string& statistics, bool force) {
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<Reader> reader,
                          Reader::Open(store));
  tool::ReportOptions options;
  options.statistics_path = statistics;
  CKPTDB_ASSIGN_OR_RETURN(const tool::Json data,
                          tool::ReportData(reader.get(), options));
  return tool::WriteReport(data, out, force);
}

}  // namespace

void BindReport(nanobind::module_& module) {
  module.def("write_report",
             [](const std::string& store, const std::string& out,
                const std::string& statistics, bool force) {
               absl::Status written;
               {
                 const ReleaseGil release;
                 written = WriteReportOf(store, out, statistics, force);
               }
               Check(written);
             });
}

}  // namespace ckptdb::python
