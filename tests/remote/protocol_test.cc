// SPDX-License-Identifier: Apache-2.0
// Pushes fence each other, survive lost replies, and refuse services that do
// not support conditional puts.
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "remote/remote_store.h"
#include "remote/sync/shipper.h"
#include "tests/remote/fake_source.h"
#include "tests/remote/memory_store.h"
#include "tests/remote/protocol_fixture.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

class ProtocolTest : public ProtocolFixture {
 protected:
  // How often each call was made, whatever its key.
  std::map<std::string, int> Totals() {
    std::map<std::string, int> totals;
    for (const auto& [call, count] : remote_.calls()) {
      if (!absl::StrContains(call, " ")) totals[call] = count;
    }
    return totals;
  }
};

TEST_F(ProtocolTest, ANewOwnerFencesTheOneBefore) {
  source_.Save(true, 1);
  source_.Save(false, 2);
  PushOptions options;
  bool once = true;
  options.on_point = [&](absl::string_view point) {
    if (point != point::kShipData || !once) return;
    once = false;
    ASSERT_OK(Push(source_).status());
  };
  EXPECT_THAT(Push(source_, options),
              Aborted("another process ships", "epoch 2", "had 1"));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

TEST_F(ProtocolTest, UsesThePreviousCatalogOnceADamagedOneIsDeleted) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  ASSERT_OK(Push(source_));
  const auto newest = remote_.objects().lower_bound("catalog/");
  for (const size_t bytes : {newest->second.bytes.size() / 2, size_t{0}}) {
    newest->second.bytes.resize(bytes);
    EXPECT_THAT(ListRemote(&remote_), DataLoss("catalog/", "is deleted"));
    EXPECT_THAT(Push(source_), DataLoss("catalog/", "is deleted"));
  }
  remote_.objects().erase(newest);
  EXPECT_THAT(Steps(), ElementsAre(10));
  ASSERT_OK_AND_ASSIGN(const PushResult pushed, Push(source_));
  EXPECT_THAT(pushed.shipped, ElementsAre(20));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

// Each request costs money: docs/remote.md, "Requests".
TEST_F(ProtocolTest, RequestsAreCounted) {
  source_.Save(true, 1);
  const PushOptions options;
  internal::Shipper shipper(&remote_, &options);
  ASSERT_OK(shipper.Push(source_));
  // The first push becomes the owner and ships a step.
  EXPECT_THAT(Totals(),
              ElementsAre(Pair("delete", 1), Pair("get", 2), Pair("head", 3),
                          Pair("list", 3), Pair("put", 7)));
  remote_.calls().clear();
  ASSERT_OK(shipper.Push(source_));
  EXPECT_THAT(remote_.calls(), IsEmpty());
  source_.Save(false, 2);
  source_.Save(false, 3);
  ASSERT_OK(shipper.Push(source_));
  // Two steps with a data file each.
  EXPECT_THAT(
      remote_.calls(),
      UnorderedElementsAre(Pair("put", 6), Pair("put data", 2),
                           Pair("put versions", 2), Pair("put catalog", 2),
                           Pair("head", 2), Pair("head catalog", 2)));
  // Changed metrics: the version object is replaced.
  remote_.calls().clear();
  source_.SetMetric(20, 0.5);
  ASSERT_OK(shipper.Push(source_));
  EXPECT_THAT(remote_.calls(),
              UnorderedElementsAre(Pair("get", 1), Pair("get versions", 1),
                                   Pair("put", 2), Pair("put versions", 1),
                                   Pair("put catalog", 1), Pair("head", 1),
                                   Pair("head catalog", 1)));
}

// A put that was done, but whose reply was lost.
TEST_F(ProtocolTest, LostRepliesAreToldByTheToken) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  int lost = 0;
  remote_.set_after([&](absl::string_view call, absl::string_view key) {
    if (call != "put" || !absl::StartsWith(key, "catalog/")) {
      return absl::OkStatus();
    }
    ++lost;
    return absl::UnavailableError("lost");
  });
  ASSERT_OK(Push(source_));
  EXPECT_EQ(lost, 2);
  remote_.set_after(nullptr);
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
}

// A lost reply followed by another owner is a success, and then a lost race.
TEST_F(ProtocolTest, AnUnknownOutcomeIsReported) {
  source_.Save(true, 1);
  ASSERT_OK(Push(source_));
  source_.Save(false, 2);
  int puts = 0;
  remote_.set_before([&](absl::string_view call, absl::string_view key) {
    const bool second =
        call == "put" && absl::StartsWith(key, "catalog/") && ++puts == 2;
    return second ? absl::UnavailableError("cut") : absl::OkStatus();
  });
  EXPECT_THAT(Push(source_), Unavailable("cut"));
  remote_.set_before(nullptr);
  EXPECT_THAT(Steps(), ElementsAre(10));
  ASSERT_OK(Push(source_));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  ExpectSound();
}

TEST_F(ProtocolTest, AServiceThatIgnoresConditionsIsRefused) {
  remote_.set_overwrites(true);
  source_.Save(true, 1);
  EXPECT_THAT(Push(source_), FailedPrecondition("If-None-Match"));
  EXPECT_EQ(CountOf("catalog/") + CountOf("data/") + CountOf("probe/"), 0);
}

// A service that is refused contains no objects afterwards.
TEST_F(ProtocolTest, APushProbesTheServiceBeforeItPutsAnythingElse) {
  source_.Save(true, 1);
  remote_.set_overwrites(true);
  EXPECT_THAT(Push(source_), FailedPrecondition("If-None-Match"));
  EXPECT_THAT(remote_.objects(), IsEmpty());
  remote_.set_overwrites(false);
  EXPECT_OK(Push(source_));
}

}  // namespace
}  // namespace ckptdb::testing
