// SPDX-License-Identifier: Apache-2.0
// Collections of a remote, beside pushes.
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/layout/object_keys.h"
#include "remote/remote_store.h"
#include "remote/sync/catalog_log.h"
#include "tests/remote/fake_source.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/protocol_fixture.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

class CollectionTest : public ProtocolFixture {
 protected:
  // Pushes source_, and collects days later until so many catalogs are deleted.
  // Returns whether the collection was cut.
  bool PushAndCollect(int deletions) {
    remote_.set_before(nullptr);
    EXPECT_OK(Push(source_));
    remote_.Advance(absl::Hours(48));
    remote_.set_before([&](absl::string_view call, absl::string_view key) {
      const bool is_catalog = absl::StartsWith(key, "catalog/");
      return call == "delete" && is_catalog && deletions-- == 0
                 ? absl::UnavailableError("cut")
                 : absl::OkStatus();
    });
    const bool cut = !CollectRemote(&remote_).ok();
    remote_.set_before(nullptr);
    return cut;
  }
  // Saves and ships step 10. Then an owner that has saved another step than
  // source_ stalls before it puts its catalog, and `meanwhile`, which pushes
  // source_ and collects, is called with the catalog's key. The put succeeds,
  // but it is too late.
  void PutACatalogLate(
      const std::function<void(const std::string& key)>& meanwhile) {
    source_.Save(true, 1);
    ASSERT_OK(Push(source_));
    FakeSource stalled = source_;
    source_.Save(false, 2);
    stalled.Save(false, 3);
    PushOptions options;
    options.on_point = [&](absl::string_view point) {
      if (point != point::kShipOwned) return;
      remote_.set_before([&](absl::string_view call, absl::string_view key) {
        if (call == "put" && absl::StartsWith(key, "catalog/")) {
          remote_.set_before(nullptr);
          meanwhile(std::string(key));
        }
        return absl::OkStatus();
      });
    };
    EXPECT_THAT(Push(stalled, options), Aborted("another process ships"));
    remote_.set_before(nullptr);
    EXPECT_THAT(Steps(), ElementsAre(10, 20));
    ASSERT_OK_AND_ASSIGN(const auto newest, internal::NewestCatalog(&remote_));
    EXPECT_EQ(newest->entries.back().lineage, LineageDigest(*source_.Newest()));
    ExpectSound();
  }
};

TEST_F(CollectionTest, ACollectionKeepsForeignObjects) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  ASSERT_OK(Push(source_));
  const std::vector<std::string> foreign = {
      "catalog/copy/db/CURRENT",
      "catalog/notes",
      "data/notes",
      "probe/notes",
      "probe/0a1b2c3d-0000-4000-8000-000000000000/copy",
      "versions/notes"};
  for (const std::string& key : foreign) {
    ASSERT_OK(remote_.PutIfAbsent(key, "x", "t"));
  }
  const std::string probe = "probe/0a1b2c3d-0000-4000-8000-000000000000-b";
  ASSERT_OK(remote_.PutIfAbsent(probe, "x", "t"));
  remote_.Advance(absl::Hours(48));
  ASSERT_OK(CollectRemote(&remote_).status());
  for (const std::string& key : foreign) EXPECT_OK(remote_.Head(key)) << key;
  EXPECT_THAT(remote_.Head(probe), NotFound(""));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
}

TEST_F(CollectionTest, ACollectionKeepsTheNewestAndPinnedSteps) {
  for (int i = 0; i < 5; ++i) source_.Save(i % 2 == 0, i);
  ASSERT_OK(Push(source_));
  const size_t before = CountOf("data/");
  EXPECT_EQ(before, 5);
  CollectOptions options;
  options.keep = 2;
  ASSERT_OK_AND_ASSIGN(CollectResult collected,
                       CollectRemote(&remote_, options));
  EXPECT_THAT(collected.dropped, ElementsAre(10, 20, 30));
  EXPECT_EQ(collected.deleted_objects, 0);
  EXPECT_GT(collected.waiting_bytes, 0);
  EXPECT_THAT(Steps(), ElementsAre(40, 50));
  // The dropped steps are not shipped again.
  ASSERT_OK_AND_ASSIGN(const PushResult again, Push(source_));
  EXPECT_THAT(again.shipped, IsEmpty());
  remote_.Advance(absl::Hours(25));
  ASSERT_OK_AND_ASSIGN(collected, CollectRemote(&remote_, options));
  // Step 40 is a delta of step 30.
  EXPECT_EQ(CountOf("data/"), 3);
  EXPECT_EQ(CountOf("versions/"), 3);
  EXPECT_EQ(collected.waiting_bytes, 0);
  ExpectSound();
  source_.Save(false, 9);
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Steps(), ElementsAre(40, 50, 60));
}

TEST_F(CollectionTest, KeepCountsOnlyUsableSteps) {
  for (int i = 0; i < 3; ++i) source_.Save(true, i);
  source_.Quarantine(30);
  ASSERT_OK(Push(source_));
  CollectOptions options;
  options.keep = 1;
  ASSERT_OK_AND_ASSIGN(CollectResult collected,
                       CollectRemote(&remote_, options));
  EXPECT_THAT(collected.dropped, ElementsAre(10));
  EXPECT_THAT(Steps(), ElementsAre(20, 30));
  source_.Save(true, 3);
  ASSERT_OK(Push(source_));
  options.keep = 2;
  ASSERT_OK_AND_ASSIGN(collected, CollectRemote(&remote_, options));
  EXPECT_THAT(collected.dropped, IsEmpty());
  options.keep = 1;
  ASSERT_OK_AND_ASSIGN(collected, CollectRemote(&remote_, options));
  EXPECT_THAT(collected.dropped, ElementsAre(20, 30));
  EXPECT_THAT(Steps(), ElementsAre(40));
}

// The steps were dropped before, by a take-over, and became steps again.
TEST_F(CollectionTest, AStepThatReturnedWaitsItsGrace) {
  source_.Save(true, 1);
  FakeSource copy = source_;
  copy.set_owner(2);
  copy.set_steps_apart(5);
  source_.Save(true, 2);
  ASSERT_OK(Push(source_));
  PushOptions take_over;
  take_over.take_over = true;
  copy.Save(true, 3);
  ASSERT_OK(Push(copy, take_over));
  ASSERT_OK(CollectRemote(&remote_).status());
  ASSERT_OK_AND_ASSIGN(const PushResult back, Push(source_, take_over));
  EXPECT_THAT(back.shipped, ElementsAre(20));
  EXPECT_EQ(back.data_bytes, 0);
  remote_.Advance(absl::Hours(25));
  source_.Save(true, 4);
  ASSERT_OK(Push(source_));
  CollectOptions options;
  options.keep = 1;
  ASSERT_OK(CollectRemote(&remote_, options).status());
  remote_.Advance(absl::Hours(23));
  ASSERT_OK(CollectRemote(&remote_, options).status());
  const std::string data = internal::DataObjectKey({1, {20, 2}, 0});
  EXPECT_OK(remote_.Head(data));
  remote_.Advance(absl::Hours(2));
  ASSERT_OK(CollectRemote(&remote_, options).status());
  EXPECT_THAT(remote_.Head(data), NotFound(""));
  ExpectSound();
}

TEST_F(CollectionTest, CollectionsRefuseBadOptions) {
  CollectOptions options;
  options.keep = 0;
  EXPECT_THAT(CollectRemote(&remote_, options), InvalidArgument("keep"));
  options = CollectOptions();
  options.grace = -absl::Seconds(1);
  EXPECT_THAT(CollectRemote(&remote_, options), InvalidArgument("grace"));
}

// A collector commits between the objects of a step and its catalog.
TEST_F(CollectionTest, AnOwnerGoesOnAfterACollection) {
  source_.Save(true, 1);
  source_.Save(false, 2);
  PushOptions options;
  options.on_point = [&](absl::string_view point) {
    if (point == point::kShipVersion) {
      ASSERT_OK(CollectRemote(&remote_).status());
    }
  };
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, Push(source_, options));
  EXPECT_THAT(pushed.shipped, ElementsAre(10, 20));
  ExpectSound();
}

// The collector has deleted the objects of an owner that stalled for days.
TEST_F(CollectionTest, AnOwnerThatStalledGivesUpItsObjects) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  PushOptions options;
  options.on_point = [&](absl::string_view point) {
    if (point != point::kShipVersion) return;
    remote_.Advance(absl::Hours(48));
    ASSERT_OK(CollectRemote(&remote_).status());
  };
  EXPECT_THAT(Push(source_, options), Aborted("push again"));
  EXPECT_THAT(Steps(), ElementsAre(10));
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

// Another owner commits, and a collector deletes the catalog of that number.
TEST_F(CollectionTest, ACatalogInPlaceOfADeletedOneIsNotACommit) {
  PutACatalogLate([&](const std::string& key) {
    EXPECT_OK(Push(source_));
    remote_.Advance(absl::Hours(48));
    EXPECT_OK(CollectRemote(&remote_));
    EXPECT_FALSE(remote_.objects().contains(key));
  });
}

// The same if the collector ends after any of its deletions.
TEST_F(CollectionTest, ACollectionThatIsCutDoesNotHideDeletedCatalogs) {
  bool cut = true;
  for (int deletions = 0; cut; ++deletions) {
    SCOPED_TRACE(deletions);
    remote_.objects().clear();
    source_ = FakeSource("store-1");
    cut = false;
    PutACatalogLate(
        [&](const std::string& /*key*/) { cut = PushAndCollect(deletions); });
  }
}

// Some services lack ListMultipartUploads, or the credentials do not allow it.
TEST_F(CollectionTest, ACollectionReportsThatUploadsCannotBeListed) {
  source_.Save(true, 1);
  source_.Save(false, 2);
  ASSERT_OK(Push(source_));
  int asked = 0;
  absl::Status answer = absl::FailedPreconditionError("501 NotImplemented");
  remote_.set_before([&](absl::string_view call, absl::string_view) {
    if (call != "abort") return absl::OkStatus();
    ++asked;
    return answer;
  });
  CollectOptions options;
  options.keep = 1;
  ASSERT_OK_AND_ASSIGN(const CollectResult collected,
                       CollectRemote(&remote_, options));
  EXPECT_THAT(collected.uploads, FailedPrecondition("501 NotImplemented"));
  EXPECT_THAT(collected.dropped, ElementsAre(10));
  EXPECT_EQ(asked, 1);
  answer = absl::UnavailableError("down");
  EXPECT_THAT(CollectRemote(&remote_), Unavailable("down"));
  remote_.set_before(nullptr);
  ASSERT_OK_AND_ASSIGN(const CollectResult later, CollectRemote(&remote_));
  EXPECT_OK(later.uploads);
}

TEST_F(CollectionTest, CollectionsDeleteOldCatalogsProbesAndObjectsOfNobody) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  ASSERT_OK(remote_.PutIfAbsent("probe/0a1b2c3d-0000-4000-8000-000000000000",
                                "x", "t"));
  ASSERT_OK(remote_.PutIfAbsent(internal::DataObjectKey({7, {10, 1}, 0}),
                                "orphan", "t"));
  ASSERT_OK(remote_.PutIfAbsent("data/notes/mine", "of a user", "t"));
  const size_t catalogs = CountOf("catalog/");
  ASSERT_OK(CollectRemote(&remote_).status());
  EXPECT_EQ(CountOf("catalog/"), catalogs + 2);
  remote_.Advance(absl::Hours(25));
  ASSERT_OK(CollectRemote(&remote_).status());
  EXPECT_EQ(CountOf("catalog/"), 2);
  EXPECT_EQ(CountOf("probe/"), 0);
  EXPECT_EQ(CountOf("data/"), 2);
  EXPECT_TRUE(remote_.objects().contains("data/notes/mine"));
  ExpectSound();
}

}  // namespace
}  // namespace ckptdb::testing
