// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/catalog_log.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/base/uuid.h"
#include "remote/layout/object_keys.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/limits.h"
#include "schema/records/envelope.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

absl::Status LostRace(const RemoteCatalog& next) {
  return absl::AbortedError(
      absl::StrCat("catalog ", next.number, " was put by another process"));
}

// Whether the object at the number of `next` is the one of this put.
absl::StatusOr<bool> IsOurs(ObjectStore* store, const RemoteCatalog& next) {
  const absl::StatusOr<ObjectInfo> found = store->Head(CatalogKey(next.number));
  if (absl::IsNotFound(found.status())) return false;
  CKPTDB_RETURN_IF_ERROR(found.status());
  return found->token == next.token;
}

// A process may stall until its number was used and the catalog deleted. A list
// shows whether there are newer ones. A catalog that this process committed
// itself takes a HEAD: collectors delete in the order of the numbers, so while
// it exists, none of the next number has been deleted. A catalog that was only
// read may itself be one in place of a deleted one.
absl::Status CheckNotStale(ObjectStore* store, const RemoteCatalog* before,
                           Base base, const RemoteCatalog& next) {
  if (before != nullptr && base == Base::kCommitted) {
    const absl::StatusOr<ObjectInfo> found =
        store->Head(CatalogKey(before->number));
    if (found.ok() && found->token == before->token) return absl::OkStatus();
    if (!found.ok() && !absl::IsNotFound(found.status())) {
      return absl::UnavailableError(found.status().message());
    }
  }
  const auto listed = store->List(kCatalogPrefix, "", 1);
  if (!listed.ok()) return absl::UnavailableError(listed.status().message());
  const bool newest =
      !listed->empty() && listed->front().key == CatalogKey(next.number);
  return newest ? absl::OkStatus() : LostRace(next);
}

absl::Status WithRemedy(const absl::Status& damage) {
  return absl::Status(
      damage.code(),
      absl::StrCat(damage.message(),
                   "; after this newest catalog is deleted, the steps of the "
                   "one before can be read, and a push ships the others"));
}

absl::StatusOr<RemoteCatalog> ReadCatalog(ObjectStore* store,
                                          const ObjectInfo& object) {
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t number, ParseCatalogKey(object.key));
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                          GetObject(store, object.key, object.size));
  absl::StatusOr<RemoteCatalog> catalog = DecodeRemoteCatalog(bytes);
  const std::string place = absl::StrCat(store->Name(), "/", object.key);
  CKPTDB_RETURN_IF_ERROR(Annotate(catalog.status(), place));
  if (catalog->number == number) return catalog;
  return absl::DataLossError(absl::StrCat(place, ": the key of catalog ",
                                          number, " holds catalog ",
                                          catalog->number));
}

}  // namespace

absl::StatusOr<std::string> GetObject(ObjectStore* store, absl::string_view key,
                                      uint64_t bytes) {
  constexpr uint64_t kMostBytes = kMaxTransferBytes + kEnvelopeBytes;
  if (bytes > kMostBytes) {
    return absl::DataLossError(absl::StrCat(store->Name(), "/", key, " has ",
                                            bytes, " bytes; the limit is ",
                                            kMostBytes));
  }
  std::string object(bytes, '\0');
  CKPTDB_RETURN_IF_ERROR(
      store->Get(key, 0, absl::MakeSpan(object.data(), object.size())));
  return object;
}

absl::StatusOr<std::string> NewestCatalogKey(ObjectStore* store) {
  CKPTDB_ASSIGN_OR_RETURN(std::vector<ObjectInfo> listed,
                          store->List(kCatalogPrefix, "", 1));
  return listed.empty() ? std::string() : std::move(listed.front().key);
}

absl::StatusOr<std::optional<RemoteCatalog>> NewestCatalog(ObjectStore* store) {
  constexpr int kTries = 10;
  absl::Status status;
  ObjectInfo before;
  for (int i = 0; i < kTries; ++i) {
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<ObjectInfo> listed,
                            store->List(kCatalogPrefix, "", 1));
    if (listed.empty()) return std::nullopt;
    const bool same =
        listed.front().key == before.key && listed.front().size == before.size;
    // After a stall, another process may have put another object of that key.
    if (same && absl::IsDataLoss(status)) return WithRemedy(status);
    before = listed.front();
    absl::StatusOr<RemoteCatalog> catalog = ReadCatalog(store, listed.front());
    if (catalog.ok()) return *std::move(catalog);
    status = catalog.status();
    // A collector has deleted it since, as there is a newer one.
    if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  }
  return absl::UnavailableError(status.message());
}

absl::Status AppendCatalog(ObjectStore* store, const RemoteCatalog* before,
                           Base base, RemoteCatalog* next) {
  next->number = before == nullptr ? 1 : before->number + 1;
  next->token = NewUuid();
  next->written_at_micros = absl::ToUnixMicros(absl::Now());
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, EncodeRemoteCatalog(*next));
  absl::Status put =
      store->PutIfAbsent(CatalogKey(next->number), bytes, next->token);
  if (absl::IsAlreadyExists(put)) {
    CKPTDB_ASSIGN_OR_RETURN(const bool ours, IsOurs(store, *next));
    if (!ours) return LostRace(*next);
    put = absl::OkStatus();
  }
  if (absl::IsUnavailable(put)) {
    // The put may have been done, or may still be done.
    const absl::StatusOr<bool> ours = IsOurs(store, *next);
    if (!ours.ok() || !*ours) return put;
    put = absl::OkStatus();
  }
  CKPTDB_RETURN_IF_ERROR(put);
  return CheckNotStale(store, before, base, *next);
}

}  // namespace ckptdb::internal
