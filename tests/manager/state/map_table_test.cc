// SPDX-License-Identifier: Apache-2.0
// A trainer's maps as tables.
#include <array>
#include <set>
#include <unordered_map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "manager/checkpoint_manager.h"
#include "manager/map_table.h"
#include "schema/status.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

struct MapRow {
  std::array<float, 3> embedding = {};
  double sums[2] = {};
  int64_t last_step = 0;
  bool is_new = false;
  std::vector<float> history = std::vector<float>(2);
};

// Tables over any map of these rows share them.
using MapRowFieldList = MapTable<std::map<int64_t, MapRow>>::Fields;

MapRowFieldList MapRowFields() {
  return {Field("embedding", &MapRow::embedding), Field("sums", &MapRow::sums),
          Field("last_step", &MapRow::last_step, {.codec = Codec::kAuto}),
          Field("is_new", &MapRow::is_new),
          Field("history", &MapRow::history, {.dim = 2})};
}

// Returns a source's values by id: the bytes of all slots.
std::map<int64_t, std::string> ReadRows(const RowSource& rows,
                                        const std::vector<Slot>& slots) {
  std::map<int64_t, std::string> all;
  for (uint64_t b = 0; b < rows.block_count(); ++b) {
    const absl::StatusOr<RowBlock> block = rows.Block(b);
    EXPECT_OK(block);
    for (size_t i = 0; i < block->ids.size(); ++i) {
      std::string bytes;
      for (size_t s = 0; s < slots.size(); ++s) {
        bytes.append(block->slots[s].At(block->RowAt(i)), slots[s].row_bytes());
      }
      EXPECT_TRUE(all.emplace(block->ids[i], bytes).second) << block->ids[i];
    }
  }
  return all;
}

absl::Status AddToModel(TableState* table) {
  ModelState model;
  return model.AddTable("user", table);
}

// The example of the header.
struct User {
  std::array<float, 16> embedding;
  std::array<float, 16> adagrad_sum;
  int64_t last_step;
};

absl::Status ExampleOfMapTable(const std::string& path) {
  ModelState model;
  std::unordered_map<int64_t, User> users;
  MapTable user_table(&users, {Field("embedding", &User::embedding),
                               Field("adagrad_sum", &User::adagrad_sum),
                               Field("last_step", &User::last_step)});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &user_table));
  std::unordered_map<int64_t, std::array<float, 16>> items;
  MapTable item_table(&items, {Field("embedding")});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("item", &item_table));
  ManagerOptions options;
  options.path = path;
  CKPTDB_ASSIGN_OR_RETURN(auto manager,
                          CheckpointManager::Open(options, &model));
  users[18] = {};
  user_table.MarkUpserted({18});
  CKPTDB_RETURN_IF_ERROR(manager->Step().status());
  CKPTDB_RETURN_IF_ERROR(manager->Save().status());

  users[17].last_step = 1;
  user_table.MarkUpserted({17});
  users.erase(18);
  user_table.MarkErased({18});
  items[-3].fill(0.5f);
  item_table.MarkUpserted({-3});
  CKPTDB_RETURN_IF_ERROR(manager->Step().status());
  CKPTDB_RETURN_IF_ERROR(manager->Save().status());
  CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());

  users.clear();
  items.clear();
  CKPTDB_RETURN_IF_ERROR(manager->Restore().status());
  EXPECT_THAT(users, SizeIs(1));
  EXPECT_EQ(users[17].last_step, 1);
  EXPECT_EQ(items[-3][15], 0.5f);
  return manager->Close();
}

TEST(MapTableTest, RunsTheExampleOfTheHeader) {
  const TempDir dir;
  EXPECT_OK(ExampleOfMapTable(dir.path() + "/store"));
}

TEST(MapTableTest, FieldsAreSlots) {
  std::unordered_map<int64_t, MapRow> map;
  MapTable table(
      &map, MapRowFields(),
      {.slice_hash = SliceHash::kMix, .optimizer_slots = {"sums", "history"}});
  EXPECT_THAT(table.slots(),
              ElementsAre(Slot{"embedding", DType::kF32, 3},
                          Slot{"sums", DType::kF64, 2},
                          Slot{"last_step", DType::kI64, 1, Codec::kAuto},
                          Slot{"is_new", DType::kBool, 1},
                          Slot{"history", DType::kF32, 2}));
  EXPECT_EQ(table.slice_hash(), SliceHash::kMix);
  EXPECT_THAT(table.optimizer_slots(), ElementsAre("sums", "history"));
  EXPECT_OK(AddToModel(&table));
}

// Numbers, vectors and members of a base class are fields, too.
TEST(MapTableTest, SupportsRowsOfOtherTypes) {
  std::map<int64_t, float> numbers = {{1, 0.5f}};
  MapTable number_table(&numbers, {Field("value")});
  EXPECT_THAT(number_table.slots(), ElementsAre(Slot{"value", DType::kF32, 1}));
  ASSERT_OK_AND_ASSIGN(auto rows, number_table.AllRows());
  EXPECT_EQ(ReadRows(*rows, number_table.slots()).at(1),
            std::string("\0\0\0\x3f", 4));

  absl::node_hash_map<uint64_t, std::vector<uint8_t>> bytes;
  bytes[~uint64_t{0}] = {'a', 'b'};
  MapTable byte_table(&bytes, {Field("value", {.dim = 2})});
  ASSERT_OK(AddToModel(&byte_table));
  ASSERT_OK_AND_ASSIGN(rows, byte_table.AllRows());
  EXPECT_EQ(ReadRows(*rows, byte_table.slots()).at(-1), "ab");

  struct Derived : MapRow {
    int32_t count = 0;
  };
  absl::flat_hash_map<int64_t, Derived> derived = {{7, {}}};
  MapTable derived_table(&derived, {Field("last_step", &Derived::last_step),
                                    Field("count", &Derived::count)});
  derived[7].last_step = 'l';
  derived[7].count = 'c';
  ASSERT_OK_AND_ASSIGN(rows, derived_table.AllRows());
  EXPECT_EQ(ReadRows(*rows, derived_table.slots()).at(7),
            std::string("l\0\0\0\0\0\0\0c\0\0\0", 12));
}

template <typename Map>
class MapOfAnyType : public ::testing::Test {};
using Maps = ::testing::Types<
    std::unordered_map<int64_t, MapRow>, std::map<int64_t, MapRow>,
    absl::flat_hash_map<int64_t, MapRow>, absl::node_hash_map<int64_t, MapRow>,
    std::unordered_map<uint64_t, MapRow>>;
TYPED_TEST_SUITE(MapOfAnyType, Maps);

// Maps so small that they are walked by one task, and so large that they are
// walked by many; with gaps and colliding ids.
TYPED_TEST(MapOfAnyType, SourceContainsEachRowOnce) {
  for (const int64_t rows : {0, 1, 100, 4096, 8192, 100'000}) {
    SCOPED_TRACE(rows);
    TypeParam map;
    std::set<int64_t> erased;
    for (int64_t i = 0; i < rows; ++i) {
      const auto id = static_cast<int64_t>(MixId(static_cast<uint64_t>(i)));
      map[id].last_step = i;
      map[id].history[1] = static_cast<float>(i);
      if (i % 7 == 3) erased.insert(id);
    }
    for (const int64_t id : erased) map.erase(id);
    MapTable table(&map, {Field("last_step", &MapRow::last_step),
                          Field("history", &MapRow::history, {.dim = 2})});
    ASSERT_OK_AND_ASSIGN(const auto all, table.AllRows());
    const auto found = ReadRows(*all, table.slots());
    ASSERT_EQ(found.size(), map.size());
    std::vector<int64_t> ids;
    for (const auto& [id, bytes] : found) {
      if (ids.size() < 10'000) ids.push_back(id);
      const MapRow& row = map.at(id);
      std::string expected(reinterpret_cast<const char*>(&row.last_step), 8);
      expected.append(reinterpret_cast<const char*>(row.history.data()), 8);
      ASSERT_EQ(bytes, expected) << id;
    }
    ASSERT_OK_AND_ASSIGN(const auto some, table.RowsOf(ids));
    const auto found_some = ReadRows(*some, table.slots());
    ASSERT_EQ(found_some.size(), ids.size());
    for (const auto& [id, bytes] : found_some) EXPECT_EQ(bytes, found.at(id));
  }
}

TEST(MapTableTest, AddTableRejectsInvalidFields) {
  struct Case {
    MapRowFieldList fields;
    TableOptions options;
    std::string error;
  };
  const MapRowFieldList::value_type field = Field("a", &MapRow::embedding);
  const Case cases[] = {
      {{}, {}, "it has 0 slots; expected 1 to 256"},
      {std::vector(257, field), {}, "it has 257 slots; expected 1 to 256"},
      {{Field("", &MapRow::embedding)}, {}, "slot name \"\" is empty"},
      {{Field(nullptr, &MapRow::embedding)}, {}, "slot name \"\" is empty"},
      {{field, field}, {}, "duplicate slot \"a\""},
      {{Field("a", static_cast<bool MapRow::*>(nullptr))},
       {},
       "the member of field \"a\" is null"},
      {{Field("a", &MapRow::history)}, {}, "field \"a\" is a std::vector"},
      {{Field("a", &MapRow::embedding, {.dim = 4})},
       {},
       "field \"a\" has TableOptions::Field::dim 4 but a type of 3 elements"},
      {{Field("a", &MapRow::history, {.dim = 16385})},
       {},
       "slot \"a\" of 16385 x f32 has 65540 bytes per row; expected 1 to "
       "65536"},
      {{field}, {.optimizer_slots = {"b"}}, "names \"b\", which is not a slot"},
      {{field},
       {.threads = 0},
       "TableOptions::threads is 0; it must be at least 1"},
  };
  std::unordered_map<int64_t, MapRow> map;
  map[3];
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.error);
    MapTable table(&map, wrong.fields, wrong.options);
    EXPECT_THAT(AddToModel(&table), InvalidArgument(wrong.error));
    // Calls made despite the error.
    table.MarkUpserted({3});
    EXPECT_THAT(table.AllRows().status(), InvalidArgument());
    EXPECT_THAT(table.RowsOf({3}).status(), InvalidArgument());
    EXPECT_EQ(table.Live({"a"}), nullptr);
  }
  std::unordered_map<int64_t, MapRow>* const none = nullptr;
  MapTable table(none, MapRowFields());
  EXPECT_THAT(AddToModel(&table),
              InvalidArgument("state \"user\": the map is null"));
  EXPECT_THAT(table.AllRows(), InvalidArgument());
  EXPECT_EQ(table.Live({"embedding"}), nullptr);
}

TEST(MapTableTest, RowsFail_WhenARowIsMissingOrItsVectorHasAnotherSize) {
  std::unordered_map<int64_t, MapRow> map;
  map[1];
  MapTable table(&map, MapRowFields());
  EXPECT_THAT(table.RowsOf({1, -9}),
              Internal("row -9 was marked as upserted but is not"));
  map[2].history.push_back(0);
  const auto wrong = FailedPrecondition(
      "the std::vector of slot \"history\" of row 2 does not have 2 elements, "
      "as TableOptions::Field::dim requires");
  EXPECT_THAT(table.AllRows(), wrong);
  EXPECT_THAT(table.RowsOf({1, 2}), wrong);
  EXPECT_OK(table.RowsOf({1}));
}

// Values that are not restored are unchanged, and zero in new rows, whose
// vectors are sized.
TEST(MapTableTest, RestoresSomeSlots) {
  struct SomeRow {
    float embedding;
    std::vector<float> sums;
    int64_t count;
  };
  std::unordered_map<int64_t, SomeRow> map;
  map[1] = {1, {1, 1}, 1};
  MapTable table(&map, {Field("embedding", &SomeRow::embedding),
                        Field("sums", &SomeRow::sums, {.dim = 2}),
                        Field("count", &SomeRow::count)});
  EXPECT_EQ(table.Live({"embedding", "color"}), nullptr);
  LiveTable* const live = table.Live({"count", "embedding"});
  ASSERT_NE(live, nullptr);
  const std::array<int64_t, 2> ids = {1, 2};
  const std::array<int64_t, 2> counts = {10, 20};
  const std::array<float, 2> embeddings = {0.5f, 2};
  const std::array<const char*, 2> slots = {
      reinterpret_cast<const char*>(counts.data()),
      reinterpret_cast<const char*>(embeddings.data())};
  ASSERT_OK(live->Consume(0, {ids, slots}));
  EXPECT_EQ(map[1].embedding, 0.5f);
  EXPECT_THAT(map[1].sums, ElementsAre(1, 1));
  EXPECT_EQ(map[1].count, 10);
  EXPECT_EQ(map[2].embedding, 2);
  EXPECT_THAT(map[2].sums, ElementsAre(0, 0));
  EXPECT_EQ(map[2].count, 20);
  ASSERT_OK(live->Erase(0, {1, 5}));
  EXPECT_THAT(map, SizeIs(1));
  ASSERT_OK(live->Clear());
  EXPECT_THAT(map, SizeIs(0));
}

}  // namespace
}  // namespace ckptdb::testing
