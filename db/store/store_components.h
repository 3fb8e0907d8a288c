// SPDX-License-Identifier: Apache-2.0
// The components of an open store that its calls use; internal to db/.
#ifndef CKPTDB_DB_STORE_STORE_COMPONENTS_H_
#define CKPTDB_DB_STORE_STORE_COMPONENTS_H_

namespace ckptdb::internal {

class Committer;
class PostTaker;
class StepCatalog;
class StoreFolder;
class SweepRequests;
class TableSummaryCache;

// Passed to the functions that implement the calls of Store. They have no other
// state, so any thread may call them.
struct StoreComponents {
  StoreFolder* folder;
  StepCatalog* catalog;
  TableSummaryCache* summaries;
  Committer* committer;
  PostTaker* posts;
  SweepRequests* requests;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_STORE_COMPONENTS_H_
