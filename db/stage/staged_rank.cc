// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/state.h"
#include "schema/records/staged.h"
#include "schema/status.h"

namespace ckptdb {

Ticket::Ticket() : Ticket(internal::TicketRecord()) {}

Ticket::Ticket(internal::TicketRecord record)
    : record_(std::make_shared<internal::TicketRecord>(std::move(record))) {}

absl::StatusOr<Ticket> Ticket::Decode(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(internal::TicketRecord record, DecodeTicket(bytes));
  return Ticket(std::move(record));
}

absl::StatusOr<std::string> Ticket::Encode() const {
  return EncodeTicket(*record_);
}

const Version& Ticket::version() const { return record_->version; }
uint32_t Ticket::rank() const { return record_->rank; }
uint32_t Ticket::world_size() const { return record_->world_size; }
std::optional<SliceRange> Ticket::slices() const { return record_->slices; }

// Copies share the record until one of them is modified.
internal::TicketRecord& Ticket::record() {
  if (record_.use_count() > 1) {
    record_ = std::make_shared<internal::TicketRecord>(*record_);
  }
  return *record_;
}

StagedRank::StagedRank() : StagedRank(internal::StagedRecord()) {}

StagedRank::StagedRank(internal::StagedRecord record)
    : record_(std::make_shared<internal::StagedRecord>(std::move(record))) {}

absl::StatusOr<StagedRank> StagedRank::Decode(absl::string_view bytes) {
  CKPTDB_ASSIGN_OR_RETURN(internal::StagedRecord record,
                          DecodeStagedRank(bytes));
  return StagedRank(std::move(record));
}

absl::StatusOr<std::string> StagedRank::Encode() const {
  return EncodeStagedRank(*record_);
}

const Version& StagedRank::version() const { return record_->version; }
uint32_t StagedRank::rank() const { return record_->rank; }

bool StagedRank::operator==(const StagedRank& other) const {
  return *record_ == *other.record_;
}

// Copied on the first change, like Ticket: it may have 512 KiB of inline
// entries.
internal::StagedRecord& StagedRank::record() {
  if (record_.use_count() > 1) {
    record_ = std::make_shared<internal::StagedRecord>(*record_);
  }
  return *record_;
}

}  // namespace ckptdb
