// SPDX-License-Identifier: Apache-2.0
// A test of saves of several ranks.
#ifndef CKPTDB_TESTS_DB_STAGER_FIXTURE_H_
#define CKPTDB_TESTS_DB_STAGER_FIXTURE_H_

#include <string>
#include <utility>
#include <vector>

#include "db/state.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {

class StagerFixture : public StoreFixture {
 protected:
  Store::Attempt Begin(const SaveSpec& spec) {
    auto save = store_->Begin(spec);
    EXPECT_OK(save);
    return save.ok() ? *std::move(save) : Store::Attempt();
  }
  absl::StatusOr<StagedRank> StageRank(const Ticket& ticket,
                                       const RankContent& content) {
    const HeldState held(content, 100, AnyRank(ticket));
    return Stage(path(), ticket, held.state());
  }
  // All ranks, one after the other.
  std::vector<StagedRank> StageAll(const Store::Attempt& save,
                                   const std::vector<RankContent>& ranks) {
    std::vector<StagedRank> all;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      auto staged = StageRank(save.tickets.at(rank), ranks[rank]);
      EXPECT_OK(staged);
      all.push_back(staged.ok() ? *std::move(staged) : StagedRank());
    }
    return all;
  }
  void ExpectPublishFails(const Version& version,
                          const std::vector<StagedRank>& ranks,
                          absl::StatusCode code,
                          const std::vector<std::string>& words) {
    const absl::Status status = store_->Publish(version, ranks).status();
    EXPECT_EQ(status.code(), code) << status;
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(word));
    }
  }
};

// Rows whose ids are modulo `ranks` the rank, and a blob.
inline RankContent SmallRank(uint32_t rank, uint32_t ranks) {
  RankContent content;
  TableContent& table = content.tables["user"];
  table.slots = {{"v", DType::kU8, 3}};
  for (uint32_t i = 0; i < 50; ++i) {
    table.rows[int64_t{i} * ranks + rank] = "v" + std::to_string(10 + i);
  }
  content.blobs["reader"] = "rank " + std::to_string(rank);
  return content;
}

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_STAGER_FIXTURE_H_
