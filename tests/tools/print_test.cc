// SPDX-License-Identifier: Apache-2.0
// How the command prints numbers, tables, values, progress, chains and what
// steps need of one another.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <future>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/chain_length.h"
#include "tools/format.h"
#include "tools/needs.h"
#include "tools/progress_line.h"
#include "tools/text_table.h"
#include "tools/values.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint64_t kKiB = 1024;
constexpr int64_t kSecond = 1'000'000;

TEST(FormatBytes, ChangesUnitsAtPowersOf1024) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(kKiB), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(kKiB * kKiB), "1.0 MiB");
  EXPECT_EQ(FormatBytes(kKiB * kKiB * kKiB * 5 / 2), "2.5 GiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(FormatBytes, NeverPrints1024OfAUnit) {
  EXPECT_EQ(FormatBytes(kKiB * kKiB - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(kKiB * 1023 + 900), "1023.9 KiB");
}

TEST(FormatCount, GroupsThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(8000000), "8,000,000");
  EXPECT_EQ(FormatCount(std::numeric_limits<uint64_t>::max()),
            "18,446,744,073,709,551,615");
}

TEST(FormatUtc, IgnoresTheTimeZone) {
  EXPECT_EQ(FormatUtc(0), "1970-01-01 00:00:00");
  EXPECT_EQ(FormatUtc(1'700'000'000 * kSecond), "2023-11-14 22:13:20");
  EXPECT_EQ(FormatIsoUtc(1'700'000'000 * kSecond + 123456),
            "2023-11-14T22:13:20.123456Z");
}

TEST(FormatDuration, ChangesUnits) {
  EXPECT_EQ(FormatDuration(0), "0 us");
  EXPECT_EQ(FormatDuration(999), "999 us");
  EXPECT_EQ(FormatDuration(1500), "1.5 ms");
  EXPECT_EQ(FormatDuration(999'960), "1.0 s");
  EXPECT_EQ(FormatDuration(12 * kSecond), "12.0 s");
  EXPECT_EQ(FormatDuration(120 * kSecond), "2.0 min");
}

TEST(FormatAge, ChangesUnits) {
  constexpr int64_t kNow = 1'700'000'000 * kSecond;
  const auto age = [](int64_t seconds) {
    return FormatAge(kNow - seconds * kSecond, kNow);
  };
  EXPECT_EQ(age(0), "0 s");
  EXPECT_EQ(age(119), "119 s");
  EXPECT_EQ(age(120), "2 min");
  EXPECT_EQ(age(7199), "119 min");
  EXPECT_EQ(age(7200), "2 h");
  EXPECT_EQ(age(48 * 3600 - 1), "47 h");
  EXPECT_EQ(age(48 * 3600), "2 d");
}

TEST(FormatAge, TreatsFutureTimesAsNow) {
  EXPECT_EQ(FormatAge(kSecond, 0), "0 s");
  EXPECT_EQ(FormatAge(std::numeric_limits<int64_t>::max(),
                      std::numeric_limits<int64_t>::min()),
            "0 s");
}

TEST(FormatAge, DoesNotOverflow) {
  EXPECT_EQ(FormatAge(std::numeric_limits<int64_t>::min(),
                      std::numeric_limits<int64_t>::max()),
            "213503982 d");
}

TEST(FormatHash, HasAllDigits) {
  EXPECT_EQ(FormatHash(0xabc), "0000000000000abc");
  EXPECT_EQ(FormatHash(~uint64_t{0}), "ffffffffffffffff");
}

TEST(DisplayWidth, CountsCodePoints) {
  EXPECT_EQ(DisplayWidth(""), 0u);
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("größe"), 5u);
}

TEST(TextTable, AlignsColumns) {
  TextTable table({">STEP", "KIND", "FLAGS"});
  table.AddRow({"5", "full", "pinned"});
  table.AddRow({"100000", "delta", ""});
  EXPECT_EQ(table.ToString(),
            "  STEP  KIND   FLAGS\n"
            "     5  full   pinned\n"
            "100000  delta\n");
}

TEST(TextTable, PrintsTitlesOfAnEmptyTable) {
  EXPECT_EQ(TextTable({">STEP", "KIND"}).ToString(), "STEP  KIND\n");
}

TEST(TextTable, OmitsEmptyTitles) {
  TextTable table({"", ">"}, 2);
  table.AddRow({"own", "1.0 KiB"});
  table.AddRow({"borrowed", "0 B"});
  EXPECT_EQ(table.ToString(),
            "  own       1.0 KiB\n"
            "  borrowed      0 B\n");
}

TEST(TextTable, AlignsByCodePoints) {
  TextTable table({"NAME", "N"});
  table.AddRow({"größe", "1"});
  table.AddRow({"abcdef", "2"});
  EXPECT_EQ(table.ToString(),
            "NAME    N\n"
            "größe   1\n"
            "abcdef  2\n");
}

TEST(TextTable, PadsAndTruncatesRows) {
  TextTable table({"A", "B"});
  table.AddRow({"1"});
  table.AddRow({"1", "2", "3"});
  EXPECT_EQ(table.ToString(), "A  B\n1\n1  2\n");
}

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(ElementText, HasTheDigitsOfItsDType) {
  EXPECT_EQ(ElementText(DType::kF32, Bytes<float>({0.1F})), "0.1");
  EXPECT_EQ(ElementText(DType::kF64, Bytes<double>({0.1})), "0.1");
  EXPECT_EQ(ElementText(DType::kF64, Bytes<double>({0.1F})),
            "0.10000000149011612");
  EXPECT_EQ(ElementText(DType::kF32, Bytes<float>({-0.0F})), "-0");
  EXPECT_EQ(ElementText(DType::kBf16, Bytes<uint16_t>({0x3dcd})),
            "0.100097656");
  EXPECT_EQ(ElementText(DType::kF32, Bytes<float>({-std::nanf("")})), "nan");
  EXPECT_EQ(ElementText(DType::kF16, Bytes<uint16_t>({0xfc00})), "-inf");
}

TEST(ElementText, ShowsIntegersAndBools) {
  EXPECT_EQ(ElementText(DType::kI8, Bytes<int8_t>({-128})), "-128");
  EXPECT_EQ(ElementText(DType::kU8, Bytes<uint8_t>({255})), "255");
  EXPECT_EQ(ElementText(DType::kI64, Bytes<int64_t>({INT64_MIN})),
            "-9223372036854775808");
  EXPECT_EQ(ElementText(DType::kU64, Bytes<uint64_t>({UINT64_MAX})),
            "18446744073709551615");
  EXPECT_EQ(ElementText(DType::kBool, Bytes<uint8_t>({2})), "true");
  EXPECT_EQ(ElementText(DType::kBool, Bytes<uint8_t>({0})), "false");
}

TEST(ElementsText, StopsAtTheLimit) {
  const std::string bytes = Bytes<uint16_t>({1, 2, 3});
  EXPECT_EQ(ElementsText(DType::kU16, bytes, 2), "1 2 ... 1 more");
  EXPECT_EQ(ElementsText(DType::kU16, bytes, 3), "1 2 3");
}

TEST(ElementsJson, KeepsNumbersExact) {
  EXPECT_EQ(ElementsJson(DType::kU64, Bytes<uint64_t>({0, UINT64_MAX})).dump(),
            "[0,18446744073709551615]");
  EXPECT_EQ(ElementsJson(DType::kBool, Bytes<uint8_t>({1, 0})).dump(),
            "[true,false]");
  EXPECT_EQ(ElementsJson(DType::kF32, Bytes<float>({0.5F, NAN})).dump(),
            "[0.5,\"nan\"]");
}

TEST(ValuesJson, NamesTheSlots) {
  const Json json =
      ValuesJson({{"freq", DType::kI16, 2}}, {Bytes<int16_t>({-1, 7})});
  EXPECT_EQ(json.dump(),
            "[{\"name\":\"freq\",\"dtype\":\"i16\",\"elements\":2,"
            "\"values\":[-1,7]}]");
}

constexpr char kClearLine[] = "\r\x1b[K";

// Notifies when it is flushed for the first time.
class DrawnBuffer : public std::stringbuf {
 public:
  void AwaitDrawn() { drawn_.get_future().wait(); }

 private:
  int sync() override {
    if (!is_drawn_) drawn_.set_value();
    is_drawn_ = true;
    return 0;
  }
  bool is_drawn_ = false;
  std::promise<void> drawn_;
};

TEST(ProgressText, ShowsBytesAndSeconds) {
  EXPECT_EQ(
      ProgressText("verify: step 7", uint64_t{1} << 30, uint64_t{4} << 30, 3),
      "verify: step 7: 1.0 GiB of 4.0 GiB, 25 %, 3 s");
}

TEST(ProgressText, ShowsSecondsIfBytesAreUnknown) {
  EXPECT_EQ(ProgressText("gc: sweeping", 0, 0, 12), "gc: sweeping: 12 s");
}

TEST(ProgressLine, AppearsAndDisappears) {
  DrawnBuffer buffer;
  std::ostream terminal(&buffer);
  {
    ProgressLine progress(&terminal, "gc: sweeping",
                          std::chrono::milliseconds(0));
    buffer.AwaitDrawn();
  }
  EXPECT_THAT(buffer.str(),
              StartsWith(std::string(kClearLine) + "gc: sweeping: "));
  EXPECT_THAT(buffer.str(), EndsWith(std::string(" s") + kClearLine));
}

TEST(ProgressLine, ShowsNothingForAShortCall) {
  std::ostringstream terminal;
  {
    ProgressLine progress(&terminal, "gc: sweeping", std::chrono::hours(1));
    progress.Update(1, 2);
  }
  EXPECT_EQ(terminal.str(), "");
}

StepRecord Step(Version version, std::vector<Version> chain) {
  StepRecord record;
  record.version = version;
  record.chain = std::move(chain);
  return record;
}

TEST(NeedsOf, ReturnsStepsAndWhatTheyNeed) {
  const Version old = {100, 1};
  StepRecord chained = Step({200, 2}, {old, {200, 2}});
  chained.references = {old};
  StepRecord folded = Step({100, 5}, {{100, 5}});
  folded.folded = true;
  folded.folded_from = old;
  const std::vector<StepRecord> steps = {folded, chained,
                                         Step({300, 3}, {{300, 3}})};
  const Needs needs = NeedsOf(old, steps);
  EXPECT_THAT(needs.in_chain_of, ElementsAre(200));
  EXPECT_THAT(needs.referenced_by, ElementsAre(200));
  EXPECT_THAT(needs.folded_into, ElementsAre(100));
  EXPECT_EQ(NeedsText(needs),
            "runs of step 200; tensors of step 200; increment of step 100");
}

TEST(NeedsOf, ExcludesTheStepItself) {
  const std::vector<StepRecord> steps = {Step({100, 1}, {{100, 1}})};
  const Needs needs = NeedsOf({100, 1}, steps);
  EXPECT_THAT(needs.in_chain_of, IsEmpty());
  EXPECT_EQ(NeedsText(needs), "-");
}

TEST(StepsText, AbbreviatesLongLists) {
  EXPECT_EQ(StepsText({7}), "step 7");
  EXPECT_EQ(StepsText({1, 2, 3, 4, 5}), "steps 1, 2, 3, 4, 5");
  EXPECT_EQ(StepsText({1, 2, 3, 4, 5, 6}), "steps 1, 2, 3, 4 and 2 more");
}

StepRecord Step(size_t deltas, uint64_t base_bytes, uint64_t delta_bytes) {
  StepRecord record;
  record.chain.resize(deltas + 1);
  record.base_bytes = base_bytes;
  record.delta_bytes = delta_bytes;
  return record;
}

TEST(ChainText, ReportsBytes) {
  EXPECT_EQ(ChainText(Step(0, 10, 0)), "no deltas");
  EXPECT_EQ(ChainText(Step(1, 2048, 10)),
            "1 delta of 10 B over a base of 2.0 KiB");
  EXPECT_EQ(ChainText(Step(2, 2048, 1536)),
            "2 deltas of 1.5 KiB over a base of 2.0 KiB");
}

TEST(DeltaRatio, ComparesDeltasWithTheBase) {
  EXPECT_EQ(DeltaRatio(Step(0, 100, 0)), 0);
  EXPECT_EQ(DeltaRatio(Step(1, 100, 25)), 0.25);
  EXPECT_EQ(NumberJson(DeltaRatio(Step(1, 0, 25))), "inf");
}

TEST(BaseDue, ReportsTheDeltaLimit) {
  const StoreOptions::ChainBounds bounds = {.max_deltas = 3,
                                            .max_delta_ratio = 1.0};
  EXPECT_EQ(BaseDue(Step(2, 100, 1), bounds), "");
  EXPECT_EQ(BaseDue(Step(3, 100, 1), bounds),
            "the chain has 3 deltas; the limit is 3");
}

TEST(BaseDue, ReportsTheByteLimit) {
  const StoreOptions::ChainBounds bounds = {.max_deltas = 3,
                                            .max_delta_ratio = 0.5};
  EXPECT_EQ(BaseDue(Step(1, 100, 50), bounds), "");
  EXPECT_THAT(BaseDue(Step(1, 100, 51), bounds),
              HasSubstr("deltas are 0.51 times the base (51 B over 100 B); the "
                        "limit is 0.50"));
  EXPECT_EQ(BaseDue(Step(0, 0, 0), bounds), "");
}

}  // namespace
}  // namespace ckptdb::tool
