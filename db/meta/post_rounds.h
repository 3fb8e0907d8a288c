// SPDX-License-Identifier: Apache-2.0
// The order in which taken posts are removed; internal to db/.
#ifndef CKPTDB_DB_META_POST_ROUNDS_H_
#define CKPTDB_DB_META_POST_ROUNDS_H_

#include <cstddef>
#include <vector>

#include "schema/records/post.h"

namespace ckptdb::internal {

// A power loss may restore any of the posts removed since the folder was last
// synced, and these are then applied again, in their order. For the same
// outcome, the last post that sets a value stays until the removal of the
// others that set it is durable.
//
// Returns the round of each post, in the order of `posts`, the order in which
// they were posted. The highest round is removed first, and the folder is
// synced after each. Posts of different values take one round; posts that
// replace each other's values take two, regardless of their number; a chain of
// posts that each replace a part of the previous one takes more.
std::vector<size_t> RemovalRounds(const std::vector<Post>& posts);

// The maximum number of rounds of one call.
inline constexpr size_t kMaxRemovalRounds = 8;

// Like RemovalRounds, but first drops posts from the end until at most
// kMaxRemovalRounds are needed.
std::vector<size_t> LimitRemovalRounds(std::vector<Post>* posts);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_META_POST_ROUNDS_H_
