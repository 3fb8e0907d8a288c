// SPDX-License-Identifier: Apache-2.0
// ckptdb metrics: with and without another owner.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/tools/tool_fixture.h"

namespace ckptdb::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ToolMetrics : public ToolFixture {
 protected:
  // Returns a step that exists.
  int64_t AnyStep() const { return Steps().at(0); }
  std::string Text() const { return std::to_string(AnyStep()); }
  nlohmann::json MetricsOf(const std::string& step) const {
    return RunJson({"show", step})["metrics"];
  }
};

TEST_F(ToolMetrics, AddsMetricsToAStep) {
  const ToolResult added =
      Run({"metrics", Text(), "tool/auc=0.75", "a=b=-1e3"});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_EQ(added.out, "added a=b -1000 to step " + Text() +
                           "\nadded tool/auc 0.75 to step " + Text() + "\n");
  const nlohmann::json json =
      RunJson({"metrics", "latest", "tool/auc=0.5", "worst=nan"});
  EXPECT_EQ(json["posted"], false);
  EXPECT_EQ(json["step"], RunJson({"show", "latest"})["step"]);
  EXPECT_EQ(json["metrics"]["tool/auc"], 0.5);
  EXPECT_EQ(json["metrics"]["worst"], "nan");
  EXPECT_EQ(MetricsOf(Text())["tool/auc"], 0.75);
  EXPECT_EQ(MetricsOf(Text())["a=b"], -1000);
}

TEST_F(ToolMetrics, PostsMetricsWhileTheStoreIsOpen) {
  const std::string step = Text();
  Own();
  const ToolResult posted = Run({"metrics", step, "tool/auc=0.75"});
  EXPECT_EQ(posted.code, 0) << posted.err;
  EXPECT_EQ(posted.out,
            "posted tool/auc 0.75 for step " + step +
                "\nanother process has the store open and will add them with "
                "its next save\n");
  EXPECT_EQ(RunJson({"metrics", step, "tool/loss=2"})["posted"], true);
  nlohmann::json show = RunJson({"show", step});
  EXPECT_EQ(show["metrics"]["tool/auc"], 0.75);
  EXPECT_EQ(show["posted_metrics"],
            nlohmann::json({{"tool/auc", 0.75}, {"tool/loss", 2}}));
  EXPECT_THAT(Run({"show", step}).out,
              ContainsRegex("tool/auc +0\\.75 +posted\n"));
  EXPECT_THAT(Run({"ls"}).out, HasSubstr("tool/auc 0.75*"));
  ASSERT_OK(store_->TakePosts());
  show = RunJson({"show", step});
  EXPECT_EQ(show["metrics"]["tool/auc"], 0.75);
  EXPECT_EQ(show["metrics"]["tool/loss"], 2);
  EXPECT_TRUE(show["posted_metrics"].empty());
  EXPECT_THAT(Run({"ls"}).out, HasSubstr("tool/auc 0.75, 1 more\n"));
  Disown();
}

// A finished run has no owner.
TEST_F(ToolMetrics, ShowsPostsWithoutAnOwner) {
  const std::string step = Text();
  Own();
  EXPECT_EQ(Run({"metrics", step, "tool/auc=0.75"}).code, 0);
  Disown();
  const nlohmann::json steps = RunJson({"ls"})["steps"];
  EXPECT_EQ(steps[0]["metrics"]["tool/auc"], 0.75);
  EXPECT_EQ(steps[0]["posted_metrics"]["tool/auc"], 0.75);
  EXPECT_EQ(steps[0]["posted_pin"], nlohmann::json());
}

TEST_F(ToolMetrics, PinAndUnpinArePostedWhileTheStoreIsOpen) {
  const std::string step = Text();
  Own();
  const ToolResult posted = Run({"pin", step});
  EXPECT_EQ(posted.code, 0) << posted.err;
  EXPECT_EQ(posted.out,
            "posted: pin step " + step +
                "\nanother process has the store open and will do it with "
                "its next save\n");
  EXPECT_EQ(RunJson({"ls"})["steps"][0]["posted_pin"], true);
  EXPECT_THAT(Run({"ls"}).out, HasSubstr("pinned*"));
  ASSERT_OK(store_->TakePosts());
  EXPECT_EQ(RunJson({"show", step})["pinned"], true);
  EXPECT_EQ(RunJson({"unpin", step})["posted"], true);
  EXPECT_EQ(RunJson({"show", step})["posted_pin"], false);
  EXPECT_THAT(Run({"show", step}).out, HasSubstr("unpinned*"));
  ASSERT_OK(store_->TakePosts());
  EXPECT_EQ(RunJson({"show", step})["pinned"], false);
  EXPECT_EQ(Run({"pin", "987654"}).code, 2);
  Disown();
}

// Any command that owns the store applies the posts.
TEST_F(ToolMetrics, OwnerCommandAppliesPosts) {
  const std::string step = Text();
  Own();
  EXPECT_EQ(Run({"metrics", step, "tool/auc=0.75"}).code, 0);
  Disown();
  std::ofstream(path() + "/posts/01234567-89ab-cdef-0123-456789abcdef") << "x";
  const ToolResult gc = Run({"gc"});
  EXPECT_EQ(gc.code, 0);
  EXPECT_THAT(gc.err,
              HasSubstr("posts/01234567-89ab-cdef-0123-456789abcdef was "
                        "ignored: post: size 1"));
  EXPECT_EQ(MetricsOf(step)["tool/auc"], 0.75);
}

TEST_F(ToolMetrics, RejectsInvalidArguments) {
  for (const char* metric : {"auc", "auc=", "=1", "auc=x", "auc=1e999"}) {
    const ToolResult result = Run({"metrics", Text(), metric});
    EXPECT_EQ(result.code, 1) << metric;
    EXPECT_THAT(result.err, HasSubstr("expected NAME=VALUE")) << metric;
  }
  EXPECT_EQ(Run({"metrics", Text()}).code, 1);
  const ToolResult twice = Run({"metrics", Text(), "auc=1", "auc=2"});
  EXPECT_EQ(twice.code, 1);
  EXPECT_THAT(twice.err, HasSubstr("duplicate metric \"auc\""));
  EXPECT_EQ(Run({"metrics", "987654", "auc=1"}).code, 2);
  Own();
  EXPECT_EQ(Run({"metrics", "987654", "auc=1"}).code, 2);
  Disown();
}

}  // namespace
}  // namespace ckptdb::testing
