// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/tell_status.h"

#include <string>

#include "manager/ranks/message_codec.h"
#include "schema/status.h"

namespace ckptdb::internal {

absl::Status TellStatus(Coordinator* ranks, absl::string_view tag,
                        const absl::Status& status, absl::Duration deadline) {
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string all,
      ranks->Tell(tag, EncodeStatus(status), AfterGather(*ranks, deadline)));
  return DecodeStatus(all);
}

}  // namespace ckptdb::internal
