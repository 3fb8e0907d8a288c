// SPDX-License-Identifier: Apache-2.0
// The checkpoint in hex of docs/format.md: it decodes to what the prose says,
// and a save of the same state writes the same bytes. After a change of the
// format run with CKPTDB_PRINT_EXAMPLE=1 for the new block.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "db/state.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/records/records.h"
#include "schema/records/staged.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

constexpr char kBegin[] = "```hex\n";
constexpr char kEnd[] = "```\n";

Ticket ExampleTicket() {
  Ticket ticket;
  ticket.record().uuid = "6b1f0c52-1d4e-4f9a-9a0e-0c5a7d8e9f10";
  ticket.record().version = {7, 1};
  ticket.record().slices = SliceRange();
  ticket.record().staging = "staging/1/0";
  return ticket;
}

// The entries of the inline family, then those of meta, as a commit puts them.
absl::StatusOr<Entries> MakeExample() {
  TempDir folder;
  std::filesystem::create_directories(folder.path() + "/staging/1");
  const std::vector<float> weights = {1, -2};
  const std::vector<int64_t> ids = {65537, -1};
  const std::vector<float> embedding = {0.5, 0.25, 8, 4};
  const RowSource::Arrays rows(ids, {{embedding.data(), 8}});
  RankState state;
  state.AddTensor("w", TensorView::Of(weights.data(), {2}));
  state.AddTable("user", {{"embedding", DType::kF32, 2}}, &rows);
  state.AddBlob("reader", "epoch 1");
  CKPTDB_ASSIGN_OR_RETURN(StagedRank staged,
                          Stage(folder.path(), ExampleTicket(), state));
  Entries entries = std::move(staged.record().inline_entries);
  StepRecord step;
  step.store_uuid = ExampleTicket().record().uuid;
  step.version = {7, 1};
  step.chain = {step.version};
  step.branches = {{1, 1}};
  step.slice_bounds = {0, kSlices};
  step.save_micros = 1500;
  step.committed_at_micros = 1'700'000'000'000'000;
  step.metrics["auc"] = 0.75;
  step.rank_digests = {HashBytes(staged.record().rank_record)};
  step.library_version = "0.1.0";
  step.items = 3;
  step.rows = 2;
  step.raw_bytes = 47;
  step.exclusive_bytes = 175;
  step.base_bytes = 111;
  entries.emplace_back(RankKey(step.version, 0), staged.record().rank_record);
  entries.emplace_back(StepKey(7), EncodeStepRecord(step).value());
  return entries;
}

// 24 bytes a line, the value's lines indented.
std::string Print(const Entries& entries) {
  constexpr size_t kLine = 24;
  std::string text;
  for (const auto& [key, value] : entries) {
    absl::StrAppend(&text, absl::BytesToHexString(key), "\n");
    for (size_t at = 0; at < value.size(); at += kLine) {
      absl::StrAppend(
          &text, "  ",
          absl::BytesToHexString(absl::string_view(value).substr(at, kLine)),
          "\n");
    }
  }
  return text;
}

std::string DocumentBlock() {
  std::ifstream file(CKPTDB_FORMAT_DOCUMENT);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const size_t begin = all.find(kBegin);
  if (begin == std::string::npos) return "";
  const size_t from = begin + std::strlen(kBegin);
  return all.substr(from, all.find(kEnd, from) - from);
}

std::map<std::string, std::string> Parse(const std::string& block) {
  std::map<std::string, std::string> entries;
  std::string* value = nullptr;
  for (const absl::string_view line : absl::StrSplit(block, '\n')) {
    if (line.empty()) continue;
    if (line[0] != ' ') {
      value = &entries[absl::HexStringToBytes(line)];
    } else if (value != nullptr) {
      absl::StrAppend(value, absl::HexStringToBytes(line.substr(2)));
    }
  }
  return entries;
}

absl::StatusOr<std::string> RawPage(absl::string_view entry,
                                    uint32_t element_bytes) {
  CKPTDB_ASSIGN_OR_RETURN(const PageView page, ParsePage(entry));
  std::string scratch;
  CKPTDB_ASSIGN_OR_RETURN(const absl::string_view raw,
                          ReadPage(page, element_bytes, &scratch));
  return std::string(raw);
}

template <typename T>
std::vector<T> As(const std::string& raw) {
  std::vector<T> values(raw.size() / sizeof(T));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

TEST(FormatExample, ASaveWritesTheBytesOfTheDocument) {
  ASSERT_OK_AND_ASSIGN(const Entries entries, MakeExample());
  const std::string text = Print(entries);
  if (std::getenv("CKPTDB_PRINT_EXAMPLE") != nullptr) std::cout << text;
  EXPECT_EQ(DocumentBlock(), text);
}

TEST(FormatExample, PagesAndChunksDecode) {
  std::map<std::string, std::string> slots;
  for (const auto& [key, value] : Parse(DocumentBlock())) {
    if (!ParseDataKey(key).ok()) continue;
    const DataKey parsed = *ParseDataKey(key);
    EXPECT_EQ(parsed.version, (Version{7, 1}));
    const uint32_t element_bytes = parsed.kind == Item::Kind::kBlob     ? 1
                                   : parsed.kind == Item::Kind::kTensor ? 4
                                   : parsed.slot == kIdSlot             ? 8
                                                                        : 4;
    ASSERT_OK_AND_ASSIGN(const std::string raw, RawPage(value, element_bytes));
    slots[absl::StrCat(parsed.name, " ", parsed.slot)] = raw;
  }
  ASSERT_EQ(slots.size(), 4);
  EXPECT_EQ(slots["reader 0"], "epoch 1");
  EXPECT_EQ(As<float>(slots["w 0"]), (std::vector<float>{1, -2}));
  // By slice: that of 65537 is 1, that of -1 is 65535.
  EXPECT_EQ(As<int64_t>(slots["user 0"]), (std::vector<int64_t>{65537, -1}));
  EXPECT_EQ(As<float>(slots["user 1"]), (std::vector<float>{0.5, 0.25, 8, 4}));
}

TEST(FormatExample, RecordsDecode) {
  std::map<std::string, std::string> entries = Parse(DocumentBlock());
  ASSERT_OK_AND_ASSIGN(const StepRecord::Rank rank,
                       DecodeRankRecord(entries[RankKey({7, 1}, 0)]));
  ASSERT_EQ(rank.items.size(), 3);
  EXPECT_EQ(rank.items[0].name, "reader");
  EXPECT_EQ(rank.items[1].name, "user");
  EXPECT_EQ(rank.items[1].rows, 2);
  EXPECT_EQ(rank.items[2].name, "w");
  ASSERT_OK_AND_ASSIGN(const StepRecord step,
                       DecodeStepRecord(entries[StepKey(7)]));
  EXPECT_EQ(step.version, (Version{7, 1}));
  EXPECT_EQ(step.metrics.at("auc"), 0.75);
  EXPECT_EQ(step.rank_digests[0], HashBytes(entries[RankKey({7, 1}, 0)]));
}

}  // namespace
}  // namespace ckptdb::testing
