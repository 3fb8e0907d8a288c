// SPDX-License-Identifier: Apache-2.0
// The record of a post, with which a reader asks a store's owner to change a
// step; internal to the library. It has the envelope and the checks of
// records.h.
#ifndef CKPTDB_SCHEMA_RECORDS_POST_H_
#define CKPTDB_SCHEMA_RECORDS_POST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb {

// A request to add metrics, to pin or unpin, or to make a step permanent or
// ephemeral.
struct Post {
  // The numbers are stored and never change.
  enum class Lifetime : uint8_t {
    kUnchanged = 0,
    kPermanent = 1,
    kEphemeral = 2
  };

  std::string uuid;  // of the post; also the name of its file
  std::string store_uuid;
  Version version;               // the version that made the state: see StateOf
  int64_t posted_at_micros = 0;  // since 1970, UTC; later posts win
  bool pin = false;
  Metrics metrics;
  bool unpin = false;  // not with `pin`
  Lifetime lifetime = Lifetime::kUnchanged;

  bool operator==(const Post&) const = default;
};

absl::StatusOr<std::string> EncodePost(const Post& post);
absl::StatusOr<Post> DecodePost(absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_RECORDS_POST_H_
