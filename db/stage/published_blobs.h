// SPDX-License-Identifier: Apache-2.0
// Prepares the blobs that a publish adds to rank 0's part; internal to db/.
#ifndef CKPTDB_DB_STAGE_PUBLISHED_BLOBS_H_
#define CKPTDB_DB_STAGE_PUBLISHED_BLOBS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The items, in key order, and their entries, which go into the write batch: a
// file would overlap with rank 0's files, and RocksDB would keep such files in
// level 0.
struct PublishedBlobs {
  std::vector<Item> items;
  std::vector<std::pair<std::string, std::string>> entries;
};

// Returns InvalidArgument for names that cannot be stored and for more than
// kMaxPublishedBytes.
absl::Status CheckBlobs(const std::map<std::string, std::string>& blobs);

// `blobs` were checked.
absl::StatusOr<PublishedBlobs> MakeBlobs(
    const Version& version, const std::map<std::string, std::string>& blobs);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STAGE_PUBLISHED_BLOBS_H_
