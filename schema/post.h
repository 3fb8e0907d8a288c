// The record of a post: what a reader asks the owner of a store to note of a
// step; internal to the library.
//
// Posts have the envelope of records.h and are checked in the same way.
#ifndef CKPTDB_SCHEMA_POST_H_
#define CKPTDB_SCHEMA_POST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/schema/records.h"

namespace ckptdb {

// Asks for metrics, for a pin or for both.
struct Post {
  std::string uuid;  // its own, and the name of its file
  std::string store_uuid;
  Version version;               // that made the state of the step: see StateOf
  int64_t posted_at_micros = 0;  // since 1970, UTC; later posts win
  bool pin = false;
  Metrics metrics;

  bool operator==(const Post&) const = default;
};

absl::StatusOr<std::string> EncodePost(const Post& post);
absl::StatusOr<Post> DecodePost(absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_POST_H_
