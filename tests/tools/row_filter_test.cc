// SPDX-License-Identifier: Apache-2.0
// The filter language of --where, and the lists of --ids.
#include "tools/row_filter.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/seed.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tools/id_list.h"

namespace ckptdb::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// A table of three rows:
//
//   id  embedding    freq  big        half  flag  1 odd "name"
//   -1  3 4          0     2^63 + 1   1     true  5
//    7  NaN -2       3     2^63       -inf  false 6
//    9  inf -0.5     9     1          0.5   true  7
class RowFilterTest : public ::testing::Test {
 protected:
  RowFilterTest() {
    constexpr uint64_t kBig = uint64_t{1} << 63;
    Add<float>({"embedding", DType::kF32, 2}, {3, 4, kNan, -2, kInf, -0.5F});
    Add<uint32_t>({"freq", DType::kU32, 1}, {0, 3, 9});
    Add<uint64_t>({"big", DType::kU64, 1}, {kBig + 1, kBig, 1});
    Add<uint16_t>({"half", DType::kF16, 1}, {0x3c00, 0xfc00, 0x3800});
    Add<uint8_t>({"flag", DType::kBool, 1}, {1, 0, 1});
    Add<int8_t>({"1 odd \"name\"", DType::kI8, 1}, {5, 6, 7});
  }

  template <typename T>
  void Add(Slot slot, const std::vector<T>& values) {
    slots_.push_back(std::move(slot));
    // One byte in front, because batches are unaligned.
    std::string bytes(1 + values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
    columns_.push_back(std::move(bytes));
  }

  // Returns the values of all rows.
  std::vector<double> Values(const std::string& text) const {
    const auto filter = RowFilter::Parse(text, slots_);
    EXPECT_OK(filter);
    if (!filter.ok()) return {};
    std::vector<const char*> columns;
    for (const std::string& name : filter->slots()) {
      for (size_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i].name == name) columns.push_back(columns_[i].data() + 1);
      }
    }
    std::vector<RowFilter::Number> values;
    filter->Evaluate({ids_, columns}, &values);
    return {values.begin(), values.end()};
  }
  // Returns the ids of matching rows.
  std::vector<int64_t> Matches(const std::string& text) const {
    std::vector<int64_t> ids;
    const std::vector<double> values = Values(text);
    for (size_t r = 0; r < values.size(); ++r) {
      if (values[r] != 0) ids.push_back(ids_[r]);
    }
    return ids;
  }
  std::string Error(const std::string& text) const {
    const auto filter = RowFilter::Parse(text, slots_);
    EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(filter.status().message());
  }

  const std::vector<int64_t> ids_ = {-1, 7, 9};
  std::vector<Slot> slots_;
  std::vector<std::string> columns_;
};

TEST_F(RowFilterTest, CountsNanAndInf) {
  EXPECT_THAT(Values("nan(embedding)"), ElementsAre(0, 1, 0));
  EXPECT_THAT(Values("inf(embedding)"), ElementsAre(0, 0, 1));
  EXPECT_THAT(Values("inf(half)"), ElementsAre(0, 1, 0));
  EXPECT_THAT(Values("nan(freq) | inf(big)"), ElementsAre(0, 0, 0));
  EXPECT_THAT(Matches("nan(embedding)|inf(embedding)"), ElementsAre(7, 9));
}

TEST_F(RowFilterTest, FunctionsUseAllElements) {
  const auto nan = ::testing::NanSensitiveDoubleEq(kNan);
  EXPECT_THAT(Values("norm(embedding)"), ElementsAre(5, nan, kInf));
  EXPECT_THAT(Values("min(embedding)"), ElementsAre(3, nan, -0.5));
  EXPECT_THAT(Values("max(embedding)"), ElementsAre(4, nan, kInf));
  EXPECT_THAT(Values("absmax(embedding)"), ElementsAre(4, nan, kInf));
  EXPECT_THAT(Values("sum(embedding)"), ElementsAre(7, nan, kInf));
  EXPECT_THAT(Values("mean(embedding)"), ElementsAre(3.5, nan, kInf));
  EXPECT_THAT(Values("abs(half)"), ElementsAre(1, kInf, 0.5));
  EXPECT_THAT(Values("abs(embedding[1])"), ElementsAre(4, 2, 0.5));
}

TEST_F(RowFilterTest, ComparesAndCombines) {
  EXPECT_THAT(Matches("norm(embedding)>10"), ElementsAre(9));
  EXPECT_THAT(Matches("freq<3"), ElementsAre(-1));
  EXPECT_THAT(Matches("freq<=3"), ElementsAre(-1, 7));
  EXPECT_THAT(Matches("3<freq"), ElementsAre(9));
  EXPECT_THAT(Matches("freq>=freq"), ElementsAre(-1, 7, 9));
  EXPECT_THAT(Matches("id=7"), ElementsAre(7));
  EXPECT_THAT(Matches("id == -1 || id != 7 && id > 0"), ElementsAre(-1, 9));
  EXPECT_THAT(Matches("(id = -1 | id != 7) & id > 0"), ElementsAre(9));
  EXPECT_THAT(Matches("!flag"), ElementsAre(7));
  EXPECT_THAT(Matches("!(id=7)&flag=true"), ElementsAre(-1, 9));
  EXPECT_THAT(Matches("half = -inf"), ElementsAre(7));
  EXPECT_THAT(Matches("nan(embedding) | norm(embedding) > 10 | freq<3"),
              ElementsAre(-1, 7, 9));
  EXPECT_THAT(Matches("false"), IsEmpty());
}

// NaN compares as IEEE 754 defines.
TEST_F(RowFilterTest, NanComparesUnequal) {
  EXPECT_THAT(Matches("embedding[0] <= inf"), ElementsAre(-1, 9));
  EXPECT_THAT(Matches("embedding[0] = embedding[0]"), ElementsAre(-1, 9));
  EXPECT_THAT(Matches("embedding[0] != embedding[0]"), ElementsAre(7));
}

TEST_F(RowFilterTest, ComparesLargeIntegersExactly) {
  EXPECT_THAT(Matches("big > 9223372036854775808"), ElementsAre(-1));
  EXPECT_THAT(Matches("big = 9223372036854775808"), ElementsAre(7));
}

TEST_F(RowFilterTest, QuotesOddNames) {
  EXPECT_THAT(Matches(R"("1 odd \"name\"" = 6)"), ElementsAre(7));
  EXPECT_THAT(Matches(R"(max( "freq" )>3)"), ElementsAre(9));
}

TEST_F(RowFilterTest, ReadsOnlyTheNamedSlots) {
  const auto filter =
      RowFilter::Parse("freq<3 | nan(embedding) | freq>9", slots_);
  ASSERT_OK(filter);
  EXPECT_THAT(filter->slots(), ElementsAre("freq", "embedding"));
  EXPECT_THAT(RowFilter::Parse("id<3", slots_)->slots(), IsEmpty());
}

TEST_F(RowFilterTest, ErrorsPointAtTheColumn) {
  EXPECT_EQ(Error("nan(embeding)"),
            "invalid filter \"nan(embeding)\": column 5: no slot \"embeding\"; "
            "the slots are embedding (f32 x 2), freq (u32), big (u64), half "
            "(f16), flag (bool), 1 odd \"name\" (i8); did you mean "
            "\"embedding\"?");
  EXPECT_THAT(Error("freq < "), HasSubstr("column 8: the end; expected a num"));
  EXPECT_THAT(Error("freq < 3 freq"),
              HasSubstr("column 10: \"f\"; expected &, | or the end"));
  EXPECT_THAT(Error("  embedding > 3"),
              HasSubstr("column 3: slot \"embedding\" has 2 elements; write "
                        "embedding[0] to embedding[1], or a function: nan"));
  EXPECT_THAT(Error("embedding[2]"),
              HasSubstr("column 11: invalid index \"2\"; slot \"embedding\" "
                        "has elements 0 to 1"));
  EXPECT_THAT(Error("embedding[-1]"), HasSubstr("invalid index \"-1\""));
  EXPECT_THAT(Error("nrom(embedding)"),
              HasSubstr("column 1: no function \"nrom\"; the functions are"));
  EXPECT_THAT(Error("freq < 3x"), HasSubstr("column 8: \"3x\" is not a numb"));
  EXPECT_THAT(Error("(freq"), HasSubstr("column 6: the end; expected \")\""));
  EXPECT_THAT(Error("\"freq"), HasSubstr("column 1: no closing quote"));
  EXPECT_THAT(Error("1 < 2 < 3"), HasSubstr("column 7"));
  EXPECT_THAT(Error(""), HasSubstr("column 1: the end"));
}

TEST_F(RowFilterTest, LimitsDepthAndLength) {
  const auto nested = [](int levels) {
    return std::string(levels, '(') + "id" + std::string(levels, ')');
  };
  EXPECT_THAT(Values(nested(kMaxFilterDepth - 1)), ElementsAre(-1, 7, 9));
  EXPECT_THAT(Error(nested(kMaxFilterDepth)), HasSubstr("more than 64 levels"));
  EXPECT_THAT(Error(std::string(10000, '!')), HasSubstr("more than 64 levels"));
  EXPECT_THAT(Error(nested(5000)), HasSubstr("more than 64 levels"));
  std::string longest = "id";
  while (longest.size() + 3 <= kMaxFilterBytes) longest += "|id";
  longest.resize(kMaxFilterBytes, ' ');
  EXPECT_THAT(Values(longest), ElementsAre(1, 1, 1));
  EXPECT_THAT(Error(longest + " "), HasSubstr("16385 bytes; at most 16384"));
}

// Mutated filters are parsed and evaluated, or rejected.
TEST_F(RowFilterTest, RandomTextDoesNotCrash) {
  std::mt19937_64 random(testing::TestSeed());
  const std::string seed =
      "nan(embedding)|abs(embedding[1])>1e3&!(freq<3)|\"big\"!=-inf,id==\\";
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed.substr(random() % seed.size(), 1 + random() % 24);
    for (uint64_t k = random() % 3; k > 0; --k) {
      text[random() % text.size()] = random() % 4 == 0
                                         ? static_cast<char>(random())
                                         : seed[random() % seed.size()];
    }
    if (!RowFilter::Parse(text, slots_).ok()) continue;
    ++parsed;
    EXPECT_EQ(Values(text).size(), ids_.size());
  }
  EXPECT_GT(parsed, 20);
}

TEST_F(RowFilterTest, EvaluatesBatchesOfAnySize) {
  const auto filter = RowFilter::Parse("max(v) - 0 = 0", {});
  EXPECT_FALSE(filter.ok());
  const std::vector<Slot> slots = {{"v", DType::kBf16, 3}};
  const auto max = RowFilter::Parse("max(v)", slots);
  ASSERT_OK(max);
  for (const size_t rows :
       {size_t{0}, size_t{1}, size_t{682}, size_t{683}, size_t{2049}}) {
    const std::vector<int64_t> ids(rows, 1);
    std::vector<uint16_t> values(rows * 3, 0x3f80);
    if (rows > 0) values.back() = 0x4000;
    const char* column = reinterpret_cast<const char*>(values.data());
    std::vector<RowFilter::Number> result;
    max->Evaluate({ids, {&column, 1}}, &result);
    ASSERT_EQ(result.size(), rows);
    for (size_t r = 0; r < rows; ++r)
      EXPECT_EQ(result[r], r + 1 < rows ? 1 : 2);
  }
}

// --- Ids.

using Ranges = std::vector<IdList::Range>;

TEST(IdListTest, JoinsIdsAndRanges) {
  ASSERT_OK_AND_ASSIGN(const IdList ids,
                       IdList::Parse("9, 1,2 5-8\n-3--2,7-7\t100"));
  EXPECT_EQ(ids.ranges(), (Ranges{{-3, -2}, {1, 2}, {5, 9}, {100, 100}}));
  EXPECT_EQ(ids.count(), 10u);
  for (const int64_t id : {-3, -2, 1, 2, 5, 9, 100}) {
    EXPECT_TRUE(ids.Contains(id)) << id;
  }
  for (const int64_t id : {-4, -1, 0, 3, 4, 10, 99, 101}) {
    EXPECT_FALSE(ids.Contains(id)) << id;
  }
}

TEST(IdListTest, ReachesTheEndsOfInt64) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ASSERT_OK_AND_ASSIGN(
      const IdList all,
      IdList::Parse("-9223372036854775808-9223372036854775807,5,"
                    "9223372036854775807"));
  EXPECT_EQ(all.ranges(), (Ranges{{kMin, kMax}}));
  EXPECT_EQ(all.count(), std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(all.Contains(kMin) && all.Contains(kMax));
  // Unsigned ids are negative as int64.
  ASSERT_OK_AND_ASSIGN(
      const IdList high,
      IdList::Parse("9223372036854775808-18446744073709551615"));
  EXPECT_EQ(high.ranges(), (Ranges{{kMin, -1}}));
}

TEST(IdListTest, NamesTheInvalidWord) {
  for (const char* word :
       {"x", "1-", "-", "--1", "1-2-3", "1.5", "5--", "18446744073709551616"}) {
    const auto list = IdList::Parse(std::string("1,2,") + word);
    EXPECT_THAT(list.status().message(),
                HasSubstr(std::string("range \"") + word + "\""))
        << word;
  }
  EXPECT_THAT(IdList::Parse("9-5").status().message(),
              HasSubstr("\"9-5\": as int64, 9 is after 5"));
  EXPECT_THAT(IdList::Parse(" ,\n").status().message(), HasSubstr("is empty"));
}

TEST(IdListTest, ReadsAFile) {
  const testing::TempDir dir;
  const std::string path = dir.path() + "/ids";
  std::ofstream(path) << "5\n1-2\n-7\n";
  ASSERT_OK_AND_ASSIGN(const IdList ids, IdList::ParseOrRead(path));
  EXPECT_EQ(ids.ranges(), (Ranges{{-7, -7}, {1, 2}, {5, 5}}));
  EXPECT_OK(IdList::ParseOrRead("1,2"));
  std::ofstream(path) << std::string(1000, 'x');
  const absl::Status bad = IdList::ParseOrRead(path).status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.message(), HasSubstr(path + ": invalid id or range \"xxx"));
  EXPECT_LT(bad.message().size(), path.size() + 200);
  for (const std::string& missing : {dir.path(), dir.path() + "/none"}) {
    EXPECT_EQ(IdList::ParseOrRead(missing).status().code(),
              absl::StatusCode::kNotFound);
  }
  EXPECT_THAT(IdList::ParseOrRead("/dev/zero").status().message(),
              HasSubstr("/dev/zero has more than 268435456 bytes"));
}

}  // namespace
}  // namespace ckptdb::tool
