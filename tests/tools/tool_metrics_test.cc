// SPDX-License-Identifier: Apache-2.0
// ckptdb metrics: with and without another owner.
#include <fstream>
#include <string>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

class ToolMetrics : public ToolFixture {
 protected:
  Json Metrics() const { return RunJson("show 100")["metrics"]; }
};

TEST_F(ToolMetrics, AddsMetricsToAStep) {
  ExpectPrints("metrics 100 tool/auc=0.75 a=b=-1e3",
               "added a=b -1000 to step 100\n"
               "added tool/auc 0.75 to step 100\n");
  const Json json = RunJson("metrics latest tool/auc=0.5 worst=nan");
  EXPECT_THAT(json, Includes(R"({
      "posted": false, "metrics": {"tool/auc": 0.5, "worst": "nan"}})"));
  EXPECT_EQ(json["step"], RunJson("show latest")["step"]);
  EXPECT_THAT(Metrics(), Includes(R"({"tool/auc": 0.75, "a=b": -1000})"));
}

TEST_F(ToolMetrics, PostsMetricsWhileTheStoreIsOpen) {
  Own();
  ExpectPrints("metrics 100 tool/auc=0.75",
               "posted tool/auc 0.75 for step 100\n"
               "another process has the store open and will add them with its "
               "next save\n");
  EXPECT_EQ(RunJson("metrics 100 tool/loss=2")["posted"], true);
  Json show = RunJson("show 100");
  EXPECT_EQ(show["metrics"]["tool/auc"], 0.75);
  EXPECT_EQ(show["posted_metrics"],
            Json({{"tool/auc", 0.75}, {"tool/loss", 2}}));
  EXPECT_THAT(Run("show 100").out, ContainsRegex("tool/auc +0\\.75 +posted\n"));
  EXPECT_THAT(Run("ls").out, HasSubstr("tool/auc 0.75*"));
  ASSERT_OK(store_->TakePosts());
  show = RunJson("show 100");
  EXPECT_THAT(show["metrics"],
              Includes(R"({"tool/auc": 0.75, "tool/loss": 2})"));
  EXPECT_TRUE(show["posted_metrics"].empty());
  EXPECT_THAT(Run("ls").out, HasSubstr("tool/auc 0.75, 1 more\n"));
  Disown();
}

// A finished run has no owner.
TEST_F(ToolMetrics, ShowsPostsWithoutAnOwner) {
  Own();
  EXPECT_EQ(Run("metrics 100 tool/auc=0.75").code, 0);
  Disown();
  const Json steps = RunJson("ls")["steps"];
  EXPECT_THAT(steps[0], Includes(R"({
      "metrics": {"tool/auc": 0.75}, "posted_metrics": {"tool/auc": 0.75},
      "posted_pin": null})"));
}

TEST_F(ToolMetrics, PinAndUnpinArePostedWhileTheStoreIsOpen) {
  Own();
  ExpectPrints("pin 100",
               "posted: pin step 100\n"
               "another process has the store open and will do it with its "
               "next save\n");
  EXPECT_EQ(RunJson("ls")["steps"][0]["posted_pin"], true);
  EXPECT_THAT(Run("ls").out, HasSubstr("pinned*"));
  ASSERT_OK(store_->TakePosts());
  EXPECT_EQ(RunJson("show 100")["pinned"], true);
  EXPECT_EQ(RunJson("unpin 100")["posted"], true);
  EXPECT_EQ(RunJson("show 100")["posted_pin"], false);
  EXPECT_THAT(Run("show 100").out, HasSubstr("unpinned*"));
  ASSERT_OK(store_->TakePosts());
  EXPECT_EQ(RunJson("show 100")["pinned"], false);
  EXPECT_EQ(Run("pin 987654").code, 2);
  Disown();
}

// Any command that owns the store applies the posts.
TEST_F(ToolMetrics, OwnerCommandAppliesPosts) {
  Own();
  EXPECT_EQ(Run("metrics 100 tool/auc=0.75").code, 0);
  Disown();
  std::ofstream(path() + "/posts/01234567-89ab-cdef-0123-456789abcdef") << "x";
  ExpectRun("gc", 0, ::testing::_,
            HasSubstr("posts/01234567-89ab-cdef-0123-456789abcdef was "
                      "ignored: post: size 1"));
  EXPECT_EQ(Metrics()["tool/auc"], 0.75);
}

TEST_F(ToolMetrics, RejectsInvalidArguments) {
  for (const char* metric : {"auc", "auc=", "=1", "auc=x", "auc=1e999"}) {
    ExpectRun(std::string("metrics 100 ") + metric, 1, ::testing::_,
              HasSubstr("expected NAME=VALUE"));
  }
  EXPECT_EQ(Run("metrics 100").code, 1);
  ExpectRun("metrics 100 auc=1 auc=2", 1, ::testing::_,
            HasSubstr("duplicate metric \"auc\""));
  EXPECT_EQ(Run("metrics 987654 auc=1").code, 2);
  Own();
  EXPECT_EQ(Run("metrics 987654 auc=1").code, 2);
  Disown();
}

}  // namespace
}  // namespace ckptdb::testing
