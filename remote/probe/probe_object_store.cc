// SPDX-License-Identifier: Apache-2.0
#include "remote/probe/probe_object_store.h"

#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/base/uuid.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

constexpr absl::string_view kProbeFolder = "probe/";
constexpr absl::string_view kProbeBytes = "0123456789abcdef";
constexpr absl::string_view kOtherBytes = "another object";
constexpr size_t kRangeBegin = 4;
constexpr size_t kRangeBytes = 8;

absl::Status ProbeRefuses(ObjectStore& store, absl::string_view reason) {
  return absl::FailedPreconditionError(
      absl::StrCat(store.Name(), " cannot hold a remote store: ", reason));
}

absl::Status ProbePuts(ObjectStore& store, const std::string& key) {
  const std::string token = NewUuid();
  CKPTDB_RETURN_IF_ERROR(store.PutIfAbsent(key, kProbeBytes, token));
  absl::Status second = store.PutIfAbsent(key, kOtherBytes, NewUuid());
  if (second.ok()) {
    return ProbeRefuses(
        store,
        "it ignores \"If-None-Match: *\", so that two trainers would overwrite "
        "each other's steps; use a service with conditional writes, such as "
        "Amazon S3, MinIO or SeaweedFS");
  }
  if (!absl::IsAlreadyExists(second)) return second;
  CKPTDB_ASSIGN_OR_RETURN(const ObjectInfo info, store.Head(key));
  if (info.token == token && info.size == kProbeBytes.size()) {
    return absl::OkStatus();
  }
  return ProbeRefuses(
      store, absl::StrCat("it returned ", info.size, " bytes with token \"",
                          info.token, "\" for an object that was put with ",
                          kProbeBytes.size(), " and \"", token,
                          "\"; it must keep an object's metadata"));
}

absl::Status ProbeReads(ObjectStore& store, const std::string& key,
                        const std::string& before) {
  std::array<char, kRangeBytes> range = {};
  CKPTDB_RETURN_IF_ERROR(store.Get(key, kRangeBegin, absl::MakeSpan(range)));
  if (absl::string_view(range.data(), range.size()) !=
      kProbeBytes.substr(kRangeBegin, kRangeBytes)) {
    return ProbeRefuses(store, "it returned other bytes than those of a range");
  }
  const absl::Status beyond =
      store.Get(key, kProbeBytes.size() - 1, absl::MakeSpan(range));
  if (!absl::IsDataLoss(beyond)) {
    return beyond.ok() ? ProbeRefuses(store,
                                      "it returned bytes beyond the end "
                                      "of an object")
                       : beyond;
  }
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> listed,
                          store.List(kProbeFolder, before, 1));
  if (listed.size() == 1 && listed[0].key == key) return absl::OkStatus();
  return ProbeRefuses(store, "it does not list an object after it was put");
}

absl::Status ProbeOnce(ObjectStore& store) {
  const std::string name = absl::StrCat(kProbeFolder, NewUuid());
  const std::string key = absl::StrCat(name, "-1");
  absl::Status status = ProbePuts(store, key);
  if (status.ok()) status = ProbeReads(store, key, absl::StrCat(name, "-0"));
  const absl::Status deleted = store.Delete(key);
  if (!status.ok()) return status;
  CKPTDB_RETURN_IF_ERROR(deleted);
  const absl::Status gone = store.Head(key).status();
  if (absl::IsNotFound(gone)) return absl::OkStatus();
  return gone.ok()
             ? ProbeRefuses(store, "it returns an object that was deleted")
             : gone;
}

}  // namespace

// A collector deletes the objects of a process that stalls for long, which then
// finds none, or succeeds in putting one again. So it tries again.
absl::Status ProbeObjectStore(ObjectStore& store) {
  constexpr int kTries = 3;
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    status = ProbeOnce(store);
    if (!absl::IsFailedPrecondition(status) && !absl::IsNotFound(status)) {
      return status;
    }
  }
  return absl::IsNotFound(status) ? absl::UnavailableError(status.message())
                                  : status;
}

}  // namespace ckptdb::internal
