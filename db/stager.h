// Staging: a rank writes its part of a save, from any thread of any process
// that sees the store's folder.
//
//   CKPTDB_ASSIGN_OR_RETURN(Ticket ticket, DecodeTicket(bytes_from_owner));
//   CKPTDB_ASSIGN_OR_RETURN(StagedRank staged,
//                           Stage(store_path, ticket, state));
//   CKPTDB_ASSIGN_OR_RETURN(std::string bytes, EncodeStagedRank(staged));
//   send_to_owner(bytes);
#ifndef CKPTDB_DB_STAGER_H_
#define CKPTDB_DB_STAGER_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/options.h"
#include "ckptdb/db/state.h"
#include "ckptdb/schema/staged.h"

namespace ckptdb {

// Checks `state`, writes its data files below the ticket's staging folder, and
// makes them durable; nothing of them is visible before the owner publishes.
// A part whose entries, with keys and headers and before codecs, come to at
// most InlineShareBytes of the world size is not written to files: its bytes
// come back in the StagedRank. A tensor or blob that the parent has with the
// same bytes comes back as a reference to the parent's.
//
// Memory beyond the caller's: 16 bytes a row of all tables, plus about 6 MiB
// a worker, plus at most InlineShareBytes.
//
// Errors: InvalidArgument for anything wrong with `state` (a name, a shape, a
// limit, an id that is there twice, a table of several ranks that declares no
// sharding, an id that belongs to another rank by the declared one);
// ResourceExhausted, with bytes needed and free, when the disk has no room;
// Unavailable for other I/O errors. After an error the files of this rank are
// gone or will be with the attempt: see Store::Abandon.
absl::StatusOr<StagedRank> Stage(absl::string_view store_path,
                                 const Ticket& ticket, const RankState& state,
                                 const StageOptions& options = {});

// Memory for copies of the last part of a state, with which the caller's memory
// may change before all of it is written.
struct StageCopies {
  char* memory = nullptr;
  uint64_t bytes = 0;
  // Called once, by some thread, when the values of tensors, rows and blobs
  // that were not copied have been read for the last time; not when staging
  // fails before that.
  std::function<void(uint64_t copied_bytes)> on_read = {};
};

// As Stage: the last entries in the order of writing are copied first, as many
// as there is memory for.
absl::StatusOr<StagedRank> StageWithCopies(absl::string_view store_path,
                                           const Ticket& ticket,
                                           const RankState& state,
                                           const StageOptions& options,
                                           const StageCopies& copies);

}  // namespace ckptdb

#endif  // CKPTDB_DB_STAGER_H_
