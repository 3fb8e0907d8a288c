// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "schema/status.h"
#include "tools/format.h"
#include "tools/outside_store.h"

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

namespace {

// Returns the page that shows the data.
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

absl::Status WriteError(const std::string& path) {
  return absl::InternalError(
      absl::StrCat("\"", Printable(path), "\": ", std::strerror(errno)));
}

// Writes a file that appears under its name when it is whole.
absl::Status WriteWhole(const std::string& path, const std::string& text,
                        bool replace) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  constexpr mode_t kMode = 0666;  // minus the umask
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd < 0) return WriteError(temporary);
  absl::Status status;
  for (size_t done = 0; done < text.size() && status.ok();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0) status = WriteError(temporary);
    if (written > 0) done += static_cast<size_t>(written);
  }
  if (fsync(fd) != 0) status.Update(WriteError(temporary));
  close(fd);
  // A link fails if the name exists.
  if (status.ok() && replace && rename(temporary.c_str(), path.c_str()) != 0) {
    status = WriteError(path);
  } else if (status.ok() && !replace &&
             link(temporary.c_str(), path.c_str()) != 0) {
    status =
        errno == EEXIST
            ? absl::AlreadyExistsError(absl::StrCat(
                  "\"", Printable(path),
                  "\" exists; replace it with --force (force=True in Python)"))
            : WriteError(path);
  }
  unlink(temporary.c_str());
  return status;
}

}  // namespace

absl::Status WriteReport(const Json& data, const std::string& path,
                         bool replace) {
  CKPTDB_RETURN_IF_ERROR(
      CheckOutsideStore(path, data["store"].get<std::string>()));
  CKPTDB_ASSIGN_OR_RETURN(const std::string page, ReportPage(data));
  return WriteWhole(path, page, replace);
}

}  // namespace ckptdb::tool
