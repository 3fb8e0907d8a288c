// SPDX-License-Identifier: Apache-2.0
// The steps of a store, read for a copy beside the owner's sweep.
#include "db/transfer/version_source.h"

#include <memory>
#include <vector>

#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

using internal::OpenVersionSource;
using internal::VersionContent;
using internal::VersionSource;

using VersionSourceTest = SweptFixture;

// The second step saves its table in full and needs only a tensor of the first,
// which is deleted. A sweep that read the leases before the source wrote its
// own removes the first step's table after the source has listed its file.
TEST_F(VersionSourceTest, FileThatASweepRemovesMeanwhileIsUnavailable) {
  RankContent content = BulkContent(1);
  ASSERT_OK_AND_ASSIGN(const SaveResult first, Save(1, content));
  content.tables = BulkContent(2).tables;
  ASSERT_OK(Save(2, content, {.parent = first.version}));
  ASSERT_OK(store_->Delete(1));
  std::unique_ptr<VersionSource> source;
  VersionContent listed;
  options_.on_point = [&](absl::string_view point) {
    if (point != point::kSweepMarked) return;
    ASSERT_OK_AND_ASSIGN(source, OpenVersionSource(path()));
    ASSERT_OK_AND_ASSIGN(listed,
                         source->Read(*source->FindVersion(first.version)));
  };
  Reopen();
  ASSERT_OK(store_->Sweep());
  ASSERT_FALSE(listed.files.empty());
  int removed = 0;
  for (const internal::VersionFile& file : listed.files) {
    const absl::Status hashed = source->HashOf(file, nullptr).status();
    if (hashed.ok()) continue;
    ++removed;
    EXPECT_THAT(hashed, Unavailable(file.path, "was removed", "push again"));
  }
  EXPECT_GT(removed, 0);
  EXPECT_LT(removed, listed.files.size());
}

}  // namespace
}  // namespace ckptdb::testing
