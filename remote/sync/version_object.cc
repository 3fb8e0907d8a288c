// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/version_object.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "remote/sync/catalog_log.h"
#include "remote/sync/catalog_steps.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/page.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::Status OtherHash(ObjectStore* remote, absl::string_view key,
                       uint64_t expected, uint64_t found) {
  return absl::DataLossError(
      absl::StrCat(remote->Name(), "/", key, " is damaged: its hash is 0x",
                   absl::Hex(found), ", expected 0x", absl::Hex(expected)));
}

absl::StatusOr<RemoteVersion> ReadVersionObject(ObjectStore* remote,
                                                const RemoteEntry& entry) {
  const std::string key = VersionObjectKey(NameOfVersionObject(entry));
  const absl::StatusOr<std::string> bytes =
      GetObject(remote, key, entry.object_bytes);
  const std::string place = absl::StrCat(remote->Name(), "/", key);
  CKPTDB_RETURN_IF_ERROR(Annotate(bytes.status(), place));
  const uint64_t hash = HashBytes(*bytes);
  if (hash != entry.object_hash) {
    return OtherHash(remote, key, entry.object_hash, hash);
  }
  return Annotate(DecodeRemoteVersion(*bytes), place);
}

}  // namespace ckptdb::internal
