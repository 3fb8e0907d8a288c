// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.h"

#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

// Puts a file into the program, from `name` to `name`_end.
#define CKPTDB_EMBED(name, path)                                             \
  asm(".pushsection .rodata\n.global " #name "\n" #name ":\n.incbin \"" path \
      "\"\n.global " #name "_end\n" #name "_end:\n.byte 0\n.popsection\n");  \
  extern "C" const char name[];                                              \
  extern "C" const char name##_end[]

CKPTDB_EMBED(ckptdb_page_html, CKPTDB_PAGE_HTML);
CKPTDB_EMBED(ckptdb_page_js, CKPTDB_PAGE_JS);
CKPTDB_EMBED(ckptdb_chart_js, CKPTDB_CHART_JS);

namespace ckptdb::tool {

absl::StatusOr<std::string> ReportPage(const Json& data) {
  const absl::string_view chart(
      ckptdb_chart_js,
      static_cast<size_t>(ckptdb_chart_js_end - ckptdb_chart_js));
  if (chart.empty()) {
    return absl::UnimplementedError(
        "ckptdb was built without Chart.js, which draws the report: install "
        "the "
        "package libjs-chart.js, or set CKPTDB_CHART_JS to a chart.min.js, and "
        "configure again");
  }
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // No name ends the script element that holds the data.
  json = absl::StrReplaceAll(json, {{"<", "\\u003c"}});
  return absl::StrReplaceAll(
      absl::string_view(
          ckptdb_page_html,
          static_cast<size_t>(ckptdb_page_html_end - ckptdb_page_html)),
      {{"/* @CHART@ */", chart},
       {"@DATA@", json},
       {"/* @SCRIPT@ */",
        absl::string_view(
            ckptdb_page_js,
            static_cast<size_t>(ckptdb_page_js_end - ckptdb_page_js))}});
}

}  // namespace ckptdb::tool
