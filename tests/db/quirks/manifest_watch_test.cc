// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/manifest_watch.h"

#include "gtest/gtest.h"

namespace ckptdb::internal {
namespace {

TEST(ManifestWatchTest, NotesWhatIsSynced) {
  ManifestWatch watch;
  EXPECT_EQ(watch.Synced().number, 0);
  watch.Start(7);
  watch.Append(7, "abc");
  EXPECT_EQ(watch.Synced().number, 0);
  watch.Sync(7);
  watch.Named();
  watch.Append(7, "def");
  const ManifestState three = watch.Synced();
  EXPECT_EQ(three.number, 7);
  EXPECT_EQ(three.bytes, 3);
  watch.Sync(7);
  EXPECT_EQ(watch.Synced().bytes, 6);
  EXPECT_NE(watch.Synced().hash, three.hash);
}

// A file that is closed may come late.
TEST(ManifestWatchTest, WatchesTheNewestFile) {
  ManifestWatch watch;
  watch.Start(7);
  watch.Append(7, "abc");
  watch.Sync(7);
  watch.Named();
  watch.Start(8);
  watch.Append(7, "late");
  watch.Sync(7);
  EXPECT_EQ(watch.Synced().number, 7);
  EXPECT_EQ(watch.Synced().bytes, 3);
  watch.Append(8, "de");
  watch.Sync(8);
  watch.Named();
  EXPECT_EQ(watch.Synced().number, 8);
  EXPECT_EQ(watch.Synced().bytes, 2);
}

// A note that names it before CURRENT does would have the store damaged when
// the power is lost in between.
TEST(ManifestWatchTest, IsNotOfAFileThatCurrentMayNotName) {
  ManifestWatch watch;
  watch.Start(7);
  watch.Append(7, "abc");
  watch.Sync(7);
  EXPECT_EQ(watch.Synced().number, 0);
  watch.Named();
  watch.Start(8);
  watch.Append(8, "de");
  watch.Sync(8);
  EXPECT_EQ(watch.Synced().number, 7);
  EXPECT_EQ(watch.Synced().bytes, 3);
  watch.Append(8, "f");
  watch.Sync(8);
  EXPECT_EQ(watch.Synced().number, 8);
  EXPECT_EQ(watch.Synced().bytes, 3);
  watch.Named();
  EXPECT_EQ(watch.Synced().bytes, 3);
}

TEST(ManifestWatchTest, RemembersAFailure) {
  ManifestWatch watch;
  EXPECT_FALSE(watch.failed());
  watch.Fail();
  watch.Start(3);
  EXPECT_TRUE(watch.failed());
}

}  // namespace
}  // namespace ckptdb::internal
