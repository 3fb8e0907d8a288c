// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
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

// Opens the temporary file of a page, empty. A report that was killed leaves
// it; the next one with the same page takes it. A lock excludes other reports,
// where the file system has locks.
absl::StatusOr<int> OpenPart(const std::string& part) {
  constexpr mode_t kMode = 0666;  // minus the umask
  while (true) {
    const int file =
        open(part.c_str(),
             O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode);
    if (file < 0) return WriteError(part);
    absl::Cleanup close_file = [file] { close(file); };
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat("another report is writing \"", Printable(part),
                       "\"; wait until it has ended"));
    }
    struct stat held {};
    struct stat named {};
    if (fstat(file, &held) != 0) return WriteError(part);
    if (!S_ISREG(held.st_mode) || held.st_nlink > 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("\"", Printable(part),
                       "\", a temporary file of reports, is not a regular "
                       "file with one link; remove it"));
    }
    // Its report may have removed it before this one had the lock.
    if (lstat(part.c_str(), &named) != 0 || named.st_ino != held.st_ino ||
        named.st_dev != held.st_dev) {
      continue;
    }
    if (ftruncate(file, 0) != 0) return WriteError(part);
    std::move(close_file).Cancel();
    return file;
  }
}

// Writes a file that appears under its name when it is whole.
absl::Status WriteWhole(const std::string& path, const std::string& text,
                        bool replace) {
  const size_t name = path.rfind('/') + 1;  // 0 without a folder
  const std::string part = absl::StrCat(path.substr(0, name), ".",
                                        path.substr(name), ".ckptdb-page");
  CKPTDB_ASSIGN_OR_RETURN(const int file, OpenPart(part));
  absl::Status status;
  for (size_t done = 0; done < text.size() && status.ok();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written < 0) status = WriteError(part);
    if (written > 0) done += static_cast<size_t>(written);
  }
  if (fsync(file) != 0) status.Update(WriteError(part));
  // A link fails if the name exists.
  if (status.ok() && replace && rename(part.c_str(), path.c_str()) != 0) {
    status = WriteError(path);
  } else if (status.ok() && !replace && link(part.c_str(), path.c_str()) != 0) {
    status =
        errno == EEXIST
            ? absl::AlreadyExistsError(absl::StrCat(
                  "\"", Printable(path),
                  "\" exists; replace it with --force (force=True in Python)"))
            : WriteError(path);
  }
  if (!replace || !status.ok()) unlink(part.c_str());
  close(file);
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
