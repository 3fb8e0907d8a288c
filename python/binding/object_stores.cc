// SPDX-License-Identifier: Apache-2.0
#include "python/binding/object_stores.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/cancelled.h"
#include "python/binding/errors.h"
#include "remote/folder/rate_limit.h"
#include "schema/status.h"

namespace ckptdb::python {
namespace {

// Key, size, microseconds since 1970, token.
using InfoTuple = std::tuple<std::string, uint64_t, int64_t, std::string>;

nb::bytes BytesOf(absl::string_view bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

ObjectInfo InfoOf(const InfoTuple& tuple) {
  const auto& [key, size, micros, token] = tuple;
  return {key, size, absl::FromUnixMicros(micros), token};
}

class PyObjectStore : public ObjectStore {
 public:
  PyObjectStore(const nb::object& adapter, std::string name,
                const RemoteOptions& options)
      : adapter_(Hold(adapter)),
        name_(std::move(name)),
        cancelled_(options.cancelled),
        limit_(options) {}

  std::string Name() const override { return name_; }

  absl::Status PutIfAbsent(absl::string_view key, absl::string_view bytes,
                           absl::string_view token) override {
    CKPTDB_RETURN_IF_ERROR(limit_.Take(bytes.size()));
    bool written = false;
    CKPTDB_RETURN_IF_ERROR(
        Call("put_if_absent", key, [&](const nb::object& adapter) {
          written = nb::cast<bool>(adapter.attr("put")(
              std::string(key), BytesOf(bytes), std::string(token)));
        }));
    return written ? absl::OkStatus() : Exists(key);
  }

  absl::Status PutFileIfAbsent(absl::string_view key, const std::string& path,
                               absl::string_view token) override {
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0) {
      CKPTDB_RETURN_IF_ERROR(limit_.Take(static_cast<uint64_t>(found.st_size)));
    }
    bool written = false;
    CKPTDB_RETURN_IF_ERROR(
        Call("put_file", key, [&](const nb::object& adapter) {
          written = nb::cast<bool>(adapter.attr("put_file")(
              std::string(key), path, std::string(token)));
        }));
    return written ? absl::OkStatus() : Exists(key);
  }

  absl::Status Get(absl::string_view key, uint64_t offset,
                   absl::Span<char> out) override {
    CKPTDB_RETURN_IF_ERROR(limit_.Take(out.size()));
    bool found = false;
    size_t got = 0;
    CKPTDB_RETURN_IF_ERROR(
        Call("get_range", key, [&](const nb::object& adapter) {
          const nb::object read =
              adapter.attr("get")(std::string(key), offset, out.size());
          found = !read.is_none();
          if (!found) return;
          const auto bytes = nb::cast<nb::bytes>(read);
          got = bytes.size();
          std::copy_n(bytes.c_str(), std::min(got, out.size()), out.data());
        }));
    if (!found) return Missing(key);
    if (got == out.size()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(name_, ": ", key, ": expected ",
                                            out.size(), " bytes at ", offset,
                                            ", got ", got));
  }

  absl::StatusOr<ObjectInfo> Head(absl::string_view key) override {
    bool found = false;
    ObjectInfo info;
    CKPTDB_RETURN_IF_ERROR(Call("head", key, [&](const nb::object& adapter) {
      const nb::object head = adapter.attr("head")(std::string(key));
      found = !head.is_none();
      if (found) info = InfoOf(nb::cast<InfoTuple>(head));
    }));
    if (!found) return Missing(key);
    return info;
  }

  absl::StatusOr<std::vector<ObjectInfo>> List(absl::string_view prefix,
                                               absl::string_view after,
                                               uint64_t limit) override {
    std::vector<ObjectInfo> listed;
    CKPTDB_RETURN_IF_ERROR(
        Call("list_after", prefix, [&](const nb::object& adapter) {
          const auto tuples = nb::cast<std::vector<InfoTuple>>(adapter.attr(
              "list_after")(std::string(prefix), std::string(after), limit));
          for (const InfoTuple& each : tuples) listed.push_back(InfoOf(each));
        }));
    return listed;
  }

  absl::Status Delete(absl::string_view key) override {
    return Call("delete", key, [&](const nb::object& adapter) {
      adapter.attr("delete")(std::string(key));
    });
  }

  absl::Status AbortUploads(absl::string_view prefix,
                            absl::Time before) override {
    return Call("abort_uploads", prefix, [&](const nb::object& adapter) {
      adapter.attr("abort_uploads")(
          std::string(prefix),
          absl::ToDoubleSeconds(before - absl::UnixEpoch()));
    });
  }

 private:
  template <typename Use>
  absl::Status Call(absl::string_view method, absl::string_view key,
                    const Use& use) const {
    CKPTDB_RETURN_IF_ERROR(internal::CheckCancelled(cancelled_));
    return WithPython(absl::StrCat(name_, ": ", method, " of ", key), [&] {
      try {
        use(*adapter_);
      } catch (nb::python_error& error) {
        // The status keeps the exception, whose frames keep what was put.
        adapter_->attr("clear_frames")(error.value());
        WaitingCall::EndBy(nb::borrow(error.value()));
        throw;
      }
    });
  }
  absl::Status Exists(absl::string_view key) const {
    return absl::AlreadyExistsError(
        absl::StrCat(name_, ": ", key, " exists; another put created it"));
  }
  absl::Status Missing(absl::string_view key) const {
    return absl::NotFoundError(
        absl::StrCat(name_, ": ", key, " does not exist"));
  }

  const PyRef adapter_;
  const std::string name_;
  const std::function<bool()> cancelled_;
  internal::RateLimit limit_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenTarget(
    const nb::object& target, const RemoteOptions& options) {
  if (nb::isinstance<nb::str>(target)) {
    return OpenObjectStore(nb::cast<std::string>(target), options);
  }
  return std::make_unique<PyObjectStore>(
      target, nb::cast<std::string>(target.attr("name")), options);
}

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenUrlTarget(
    absl::string_view url, const RemoteOptions& options) {
  if (!absl::StartsWith(url, "object://")) return OpenObjectStore(url, options);
  std::unique_ptr<ObjectStore> opened;
  CKPTDB_RETURN_IF_ERROR(WithPython("an object store", [&] {
    const nb::object adapter = nb::module_::import_("ckptdb._object_stores")
                                   .attr("find")(std::string(url));
    opened = Check(OpenTarget(adapter, options));
  }));
  return opened;
}

}  // namespace ckptdb::python
