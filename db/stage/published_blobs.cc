// SPDX-License-Identifier: Apache-2.0
#include "db/stage/published_blobs.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "db/options.h"
#include "db/stage/staged_item.h"
#include "db/state.h"
#include "schema/bytes/names.h"
#include "schema/bytes/page.h"
#include "schema/records/staged.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::Status CheckBlobs(const std::map<std::string, std::string>& blobs) {
  uint64_t bytes = 0;
  for (const auto& [name, blob] : blobs) {
    CKPTDB_RETURN_IF_ERROR(CheckName("blob name", name));
    bytes += blob.size();
  }
  if (bytes <= kMaxPublishedBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("SaveSpec::blobs has ", bytes, " bytes; the limit is ",
                   kMaxPublishedBytes, "; stage larger blobs with a rank"));
}

absl::StatusOr<PublishedBlobs> MakeBlobs(
    const Version& version, const std::map<std::string, std::string>& blobs) {
  TicketRecord ticket;
  ticket.version = version;
  RankState state;
  for (const auto& [name, bytes] : blobs) {
    state.AddBlob(name, bytes, Codec::kAuto);
  }
  CKPTDB_ASSIGN_OR_RETURN(std::vector<StagedItem> items,
                          PrepareItems(ticket, state, StoreOptions()));
  PublishedBlobs made;
  PageBuilder page;
  std::string key;
  for (StagedItem& staged : items) {
    Stream& stream = *staged.streams.front();
    CKPTDB_RETURN_IF_ERROR(stream.ChooseCodec());
    for (uint64_t i = 0; i < stream.entries(); ++i) {
      CKPTDB_RETURN_IF_ERROR(stream.Make(i, &key, &page));
      made.entries.emplace_back(key, page.entry());
    }
    staged.Seal(Item::Placement::kInline);
    made.items.push_back(std::move(staged.item));
  }
  return made;
}

}  // namespace ckptdb::internal
