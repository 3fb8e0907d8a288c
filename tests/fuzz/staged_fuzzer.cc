// SPDX-License-Identifier: Apache-2.0
// Messages between owner and stagers: the first byte selects ticket or staged
// rank, the rest is one, or its FlatBuffer.
#include "schema/records/staged.h"

#include "tests/fuzz/record_round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using ckptdb::internal::RecordKind;
  using ckptdb::testing::CheckRecord;
  absl::string_view input(reinterpret_cast<const char*>(bytes), size);
  if (ckptdb::testing::TakeByte(&input) % 2 == 0) {
    CheckRecord(RecordKind::kTicket, ckptdb::DecodeTicket, ckptdb::EncodeTicket,
                input);
  } else {
    CheckRecord(RecordKind::kStagedRank, ckptdb::DecodeStagedRank,
                ckptdb::EncodeStagedRank, input);
  }
  return 0;
}
