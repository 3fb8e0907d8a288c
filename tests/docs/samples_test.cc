// SPDX-License-Identifier: Apache-2.0
// The C++ samples of README.md and docs/*.md. Each is the text between
// "// [NAME]" and "// [NAME end]" in a file that is compiled, which a comment
// above the sample names:
//
//   <!-- from tests/docs/samples_test.cc: map_table -->
//
#include <ckptdb/ckptdb.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace ckptdb::testing {
namespace {

[[maybe_unused]] absl::Status RegisterMap(ModelState& model) {
  // [map_table]
  struct User {
    std::array<float, 16> embedding;
    int64_t last_step;
  };
  std::unordered_map<int64_t, User> users;
  MapTable user_table(&users, {Field("embedding", &User::embedding),
                               Field("last_step", &User::last_step)});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &user_table));
  // [map_table end]
  return absl::OkStatus();
}

struct SampleUser {
  std::array<float, 16> embedding;
  float adagrad_sum;
};

[[maybe_unused]] void UseLossyCodecs(
    std::unordered_map<int64_t, SampleUser>& users, float* weights) {
  using User = SampleUser;
  // [lossy]
  MapTable user_table(
      &users, {Field("embedding", &User::embedding, {.codec = Codec::kInt8}),
               Field("adagrad_sum", &User::adagrad_sum)});
  TensorState mlp = TensorState::Of(weights, {3, 4});
  mlp.codec = Codec::kBf16;
  // [lossy end]
}

[[maybe_unused]] absl::Status OpenServer(
    std::unordered_map<int64_t, SampleUser>& users, TensorState weights,
    CheckpointManager* manager) {
  MapTable user_table(&users, {Field("embedding", &SampleUser::embedding)});
  // [serving]
  ModelState serving;
  TableView served(&user_table, {{"embedding", Codec::kInt8}});
  CKPTDB_RETURN_IF_ERROR(serving.AddTable("user", &served));
  weights.codec = Codec::kBf16;
  CKPTDB_RETURN_IF_ERROR(serving.AddTensor("mlp", weights));

  // `manager`, of the training, has restored its step. Steps of the other store
  // after that one are deleted.
  {
    CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open("serve"));
    for (const StepRecord& step : store->Steps()) {
      if (step.version.step <= manager->global_step()) continue;
      CKPTDB_RETURN_IF_ERROR(store->Delete(step.version.step));
    }
  }
  ManagerOptions options{.path = "serve",
                         .schedule = {.permanent = SaveEveryNSteps(50)},
                         .retention = {.keep = LatestN(2)}};
  CKPTDB_ASSIGN_OR_RETURN(auto server,
                          CheckpointManager::Open(options, &serving));
  // [serving end]
  return server->Close();
}

uint32_t RankOf(int64_t id, uint32_t world_size) {
  // [slices]
  const std::vector<uint32_t> bounds = EvenSliceBounds(world_size);
  const uint16_t slice = SliceOf(id, SliceHash::kModulo);
  const auto above = std::upper_bound(bounds.begin(), bounds.end(), slice);
  const auto rank = static_cast<uint32_t>(above - bounds.begin() - 1);
  // [slices end]
  return rank;
}

[[maybe_unused]] RestoreRequest MakeEvolvingRequest() {
  // [evolve]
  RestoreRequest request;
  request.evolve = EvolvePolicy{.oname = {{"user", "member"}},
                                .tables = {{"user",
                                            {.oname = {{"embedding", "weight"}},
                                             .fill = {{"adagrad_sum", 0.1}}}}}};
  // [evolve end]
  return request;
}

TEST(SamplesTest, SlicesAreDividedEvenly) {
  EXPECT_EQ(RankOf(0, 4), 0U);
  EXPECT_EQ(RankOf(16383, 4), 0U);
  EXPECT_EQ(RankOf(16384, 4), 1U);
  EXPECT_EQ(RankOf(-1, 4), 3U);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Removes the indentation that all lines of `text` share.
std::string Dedent(const std::string& text) {
  size_t indent = std::string::npos;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    indent = std::min(indent, line.find_first_not_of(' '));
  }
  if (indent == std::string::npos) return text;
  std::string result;
  lines = std::istringstream(text);
  for (std::string line; std::getline(lines, line);) {
    result += line.substr(std::min(indent, line.size())) + "\n";
  }
  return result;
}

// Returns the text between the marks of `name` in the source file.
std::string Region(const std::string& path, const std::string& name) {
  const std::string text = ReadFile(CKPTDB_SOURCE "/" + path);
  const std::string begin = "// [" + name + "]\n";
  size_t from = text.find(begin);
  const size_t until = text.find("// [" + name + " end]\n");
  if (from == std::string::npos || until == std::string::npos) {
    ADD_FAILURE() << path << " has no region " << name;
    return "";
  }
  from += begin.size();
  // Without the indentation of the mark at the end.
  return text.substr(from, text.rfind('\n', until) + 1 - from);
}

// Compares each C++ sample of the document, and returns how many there are.
int CheckSamples(const std::string& document) {
  static const std::regex kSource("<!-- from ([^:]+): (\\w+) -->");
  int samples = 0;
  std::istringstream lines(ReadFile(document));
  std::string before;
  for (std::string line; std::getline(lines, line); before = line) {
    if (line != "```cpp" && line != "```c++") continue;
    std::string sample;
    while (std::getline(lines, line) && line != "```") sample += line + "\n";
    ++samples;
    std::smatch source;
    if (!std::regex_match(before, source, kSource)) {
      ADD_FAILURE() << document << ": no source is named above\n" << sample;
      continue;
    }
    EXPECT_EQ(sample, Dedent(Region(source[1], source[2]))) << document;
  }
  return samples;
}

TEST(SamplesTest, EqualTheCompiledSources) {
  int samples = CheckSamples(CKPTDB_SOURCE "/README.md");
  for (const auto& entry :
       std::filesystem::directory_iterator(CKPTDB_SOURCE "/docs")) {
    if (entry.path().extension() == ".md") {
      samples += CheckSamples(entry.path());
    }
  }
  EXPECT_GE(samples, 7);
}

}  // namespace
}  // namespace ckptdb::testing
