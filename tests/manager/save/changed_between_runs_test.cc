// SPDX-License-Identifier: Apache-2.0
// A property of the model changes between two runs: the second run restores the
// first one's step, its saves succeed, and a third run restores the second
// one's state.
#include <cstring>
#include <optional>

#include "tests/manager/raw_table.h"
#include "tests/manager/test_options.h"
#include "tests/manager/world_model.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

constexpr int64_t kIds = 40;
constexpr int64_t kTensorElements = 12;

struct ChangedTable {
  std::vector<Slot> slots = {{"embedding", DType::kF32, 4},
                             {"freq", DType::kI32, 1}};
  std::vector<std::string> optimizer = {};
  SliceHash hash = SliceHash::kModulo;
  TableSharding sharding = TableSharding::BySlices();
};

struct ChangedTensor {
  DType dtype = DType::kF32;
  Codec codec = Codec::kNone;
  bool sharded = false;
};

// One run of the training.
struct ChangedRun {
  uint32_t world = 1;
  std::map<std::string, ChangedTable> tables = {{"item", {}}, {"user", {}}};
  std::map<std::string, ChangedTensor> tensors = {{"v", {}}, {"w", {}}};
  bool deltas = true;
  // Loads with this rule; unset: restores, with the policy if set.
  std::optional<LoadRule> rule = std::nullopt;
  std::optional<EvolvePolicy> evolve = std::nullopt;
};

// Returns the bytes of `count` equal numbers, which no codec changes.
std::string Numbers(DType dtype, uint32_t count, int64_t number) {
  if (dtype == DType::kF32) {
    return RawBytes(std::vector<float>(count, static_cast<float>(number)));
  }
  return RawBytes(std::vector<int32_t>(count, static_cast<int32_t>(number)));
}

class ChangingTable : public RawTable {
 public:
  explicit ChangingTable(const ChangedTable& spec)
      : RawTable(spec.slots), spec_(spec) {}

  void Train(int64_t id, int64_t value) {
    Row row;
    for (const Slot& slot : spec_.slots) {
      row.push_back(Numbers(slot.dtype, slot.elements, value));
    }
    Set(id, std::move(row));
    tracker_.MarkUpserted({id});
  }
  void Remove(int64_t id) {
    ASSERT_OK(Erase(/*worker=*/0, {id}));
    tracker_.MarkErased({id});
  }
  SliceHash slice_hash() const override { return spec_.hash; }
  std::vector<std::string> optimizer_slots() const override {
    return spec_.optimizer;
  }
  RowTracker* tracker() override { return &tracker_; }

 private:
  const ChangedTable spec_;
  RowTracker tracker_;
};

bool OwnsChanged(const ChangedTable& table, int64_t id, uint32_t rank,
                 uint32_t world) {
  if (table.sharding.kind() != Item::Sharding::kBySlices) {
    return OwnsId(table.sharding, id, rank, world);
  }
  std::vector<uint32_t> bounds = table.sharding.bounds();
  if (bounds.empty()) bounds = EvenSliceBounds(world);
  const uint16_t slice = SliceOf(id, table.hash);
  return world == 1 || (bounds[rank] <= slice && slice < bounds[rank + 1]);
}

// The state of all ranks: rows by table, id and slot, and the bytes of tensors.
struct Contents {
  std::map<std::string, std::map<int64_t, std::map<std::string, std::string>>>
      rows;
  std::map<std::string, std::string> tensors;

  bool operator==(const Contents&) const = default;
};

// One rank's model.
class ChangingModel {
 public:
  ChangingModel(const ChangedRun& run, uint32_t rank) : run_(run), rank_(rank) {
    for (const auto& [name, spec] : run.tables) {
      tables_[name] = std::make_unique<ChangingTable>(spec);
      EXPECT_OK(state.AddTable(name, tables_[name].get(), spec.sharding));
    }
    for (const auto& [name, spec] : run.tensors) {
      const int64_t size = kTensorElements / (spec.sharded ? run.world : 1);
      std::string& bytes = tensors_[name];
      bytes = Numbers(spec.dtype, static_cast<uint32_t>(size), 0);
      TensorState tensor;
      tensor.data = bytes.data();
      tensor.dtype = spec.dtype;
      tensor.shape = {size};
      tensor.codec = spec.codec;
      if (spec.sharded) {
        tensor.global_shape = {kTensorElements};
        tensor.offset = {size * rank};
      }
      EXPECT_OK(state.AddTensor(name, tensor));
    }
  }

  // Step 1 inserts all rows. Later steps change a third and erase one.
  void Train(int64_t step) {
    for (const auto& [name, table] : tables_) {
      for (int64_t id = 0; id < kIds; ++id) {
        if (!OwnsChanged(run_.tables.at(name), id, rank_, run_.world)) continue;
        if (id == step * 7) {
          if (table->rows().contains(id)) table->Remove(id);
        } else if (step == 1 || id % 3 == step % 3) {
          table->Train(id, id + step);
        }
      }
    }
    // "v" never changes, and is borrowed from save to save.
    for (auto& [name, bytes] : tensors_) {
      if (name == "v" && step > 1) continue;
      const DType dtype = run_.tensors.at(name).dtype;
      bytes.replace(
          0, bytes.size(),
          Numbers(dtype, static_cast<uint32_t>(bytes.size() / 4), step));
    }
  }
  void AddTo(Contents* contents) const {
    for (const auto& [name, table] : tables_) {
      const std::vector<Slot> slots = table->slots();
      for (const auto& [id, row] : table->rows()) {
        for (size_t s = 0; s < slots.size(); ++s) {
          contents->rows[name][id][slots[s].name] = row[s];
        }
      }
    }
    for (const auto& [name, bytes] : tensors_) {
      std::string& all = contents->tensors[name];
      if (run_.tensors.at(name).sharded || rank_ == 0) all += bytes;
    }
  }

  // Stores the rank's current state for AddBegunTo.
  void Remember() { AddTo(&begun_); }
  void AddBegunTo(Contents* contents) const {
    for (const auto& [table, rows] : begun_.rows) {
      contents->rows[table].insert(rows.begin(), rows.end());
    }
    for (const auto& [name, bytes] : begun_.tensors) {
      contents->tensors[name] += bytes;
    }
  }

  ModelState state;

 private:
  const ChangedRun run_;
  const uint32_t rank_;
  std::map<std::string, std::unique_ptr<ChangingTable>> tables_;
  std::map<std::string, std::string> tensors_;
  Contents begun_;
};

struct ChangeCase {
  std::string name;
  // The first save of the second run: "" if it has changes of every table, or a
  // part of the reason why "user" is saved in full.
  std::string reason;
  std::function<void(ChangedRun* first, ChangedRun* second)> change;
};

void PrintTo(const ChangeCase& test, std::ostream* out) { *out << test.name; }

class ChangedBetweenRunsTest : public ::testing::TestWithParam<ChangeCase> {
 protected:
  // Runs each rank on a thread. Returns their final state, and in *begun their
  // state when each called Remember.
  Contents RunAll(const ChangedRun& run,
                  const std::function<absl::Status(CheckpointManager*,
                                                   ChangingModel*)>& body,
                  Contents* begun = nullptr) {
    std::vector<std::unique_ptr<ChangingModel>> models(run.world);
    OnRanks(run.world, [&](uint32_t rank, auto ranks) -> absl::Status {
      models[rank] = std::make_unique<ChangingModel>(run, rank);
      auto manager = CheckpointManager::Open(
          OptionsOf(run), &models[rank]->state, std::move(ranks));
      EXPECT_OK(manager);
      if (!manager.ok()) return manager.status();
      EXPECT_OK(body(manager->get(), models[rank].get()));
      EXPECT_OK((*manager)->Close());
      return absl::OkStatus();
    });
    Contents contents;
    for (const auto& model : models) {
      model->AddTo(&contents);
      if (begun != nullptr) model->AddBegunTo(begun);
    }
    return contents;
  }
  ManagerOptions OptionsOf(const ChangedRun& run) const {
    ManagerOptions options = TestOptions(dir_.path() + "/store");
    options.retention.keep = LatestN(2);
    options.save.async = false;
    options.save.deltas = run.deltas;
    options.save.audit_deltas = true;
    return options;
  }
  static absl::Status TrainSteps(CheckpointManager* manager,
                                 ChangingModel* model, int64_t first,
                                 int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      model->Train(step);
      CKPTDB_RETURN_IF_ERROR(manager->StepTo(step).status());
    }
    return absl::OkStatus();
  }
  // Returns the reason of a step's table; empty if it was saved as changes.
  std::string ReasonOf(int64_t step, const std::string& table) {
    const auto reader = Reader::Open(dir_.path() + "/store", {});
    EXPECT_OK(reader);
    if (!reader.ok()) return "";
    const auto opened = (*reader)->OpenStep(step);
    EXPECT_OK(opened);
    if (!opened.ok()) return "";
    for (const StepRecord::Rank& rank : (*opened)->ranks()) {
      for (const Item& item : rank.items) {
        if (item.name == table && item.run == Item::Run::kBase) {
          return absl::StrCat("in full: ", item.base_reason);
        }
      }
    }
    return "";
  }

  TempDir dir_;
};

// The state that the second run should restore: the first run's, as far as both
// runs have it.
void ExpectRestored(const Contents& first, const Contents& second) {
  for (const auto& [table, rows] : first.rows) {
    if (!second.rows.contains(table)) continue;
    EXPECT_EQ(rows.size(), second.rows.at(table).size()) << table;
    for (const auto& [id, row] : rows) {
      if (!second.rows.at(table).contains(id)) {
        ADD_FAILURE() << table << " has no row " << id;
        continue;
      }
      for (const auto& [slot, bytes] : row) {
        const auto& restored = second.rows.at(table).at(id);
        if (restored.contains(slot)) {
          EXPECT_EQ(restored.at(slot), bytes);
        }
      }
    }
  }
  for (const auto& [name, bytes] : first.tensors) {
    if (second.tensors.contains(name)) {
      EXPECT_EQ(second.tensors.at(name), bytes);
    }
  }
}

TEST_P(ChangedBetweenRunsTest, SecondRunsSavesAreRestoredByTheThird) {
  ChangedRun first;
  ChangedRun second;
  GetParam().change(&first, &second);
  const Contents trained = RunAll(first, [](auto* manager, auto* model) {
    return TrainSteps(manager, model, 1, 2);
  });
  Contents restored;
  const Contents ended = RunAll(
      second,
      [&](CheckpointManager* manager, ChangingModel* model) {
        const absl::Status begun =
            second.rule.has_value()
                ? manager->Load({*second.rule}).status()
                : manager->Restore({.evolve = second.evolve}).status();
        model->Remember();
        return begun.ok() ? TrainSteps(manager, model, 3, 4) : begun;
      },
      &restored);
  if (!second.rule.has_value() && !second.evolve.has_value()) {
    ExpectRestored(trained, restored);
  }
  ChangedRun third = second;
  third.rule.reset();
  third.evolve.reset();
  const Contents found = RunAll(third, [](auto* manager, auto* /*model*/) {
    return manager->Restore().status();
  });
  EXPECT_TRUE(found == ended);
  if (GetParam().reason.empty()) {
    EXPECT_EQ(ReasonOf(3, "user"), "");
  } else {
    EXPECT_THAT(ReasonOf(3, "user"), HasSubstr(GetParam().reason));
  }
  if (second.deltas) {
    EXPECT_EQ(ReasonOf(4, "user"), "");
  }
}

// Both runs have `world` ranks, and the table "user" changes.
ChangeCase UserCase(std::string name, std::string reason, uint32_t world,
                    std::function<void(ChangedTable*, ChangedTable*)> change) {
  return {std::move(name), std::move(reason),
          [world, change = std::move(change)](ChangedRun* first,
                                              ChangedRun* second) {
            first->world = world;
            second->world = world;
            change(&first->tables["user"], &second->tables["user"]);
          }};
}

ChangeCase WorldCase(std::string name, uint32_t before, uint32_t after,
                     TableSharding sharding) {
  return {std::move(name), "", [=](ChangedRun* first, ChangedRun* second) {
            first->world = before;
            second->world = after;
            first->tables["user"].sharding = sharding;
            second->tables["user"].sharding = sharding;
            first->tensors["w"].sharded = true;
            second->tensors["w"].sharded = true;
          }};
}

ChangeCase ShardingCase(std::string name, TableSharding before,
                        TableSharding after, uint32_t world = 2) {
  return UserCase(std::move(name), "", world,
                  [=](ChangedTable* first, ChangedTable* second) {
                    first->sharding = before;
                    second->sharding = after;
                  });
}

ChangeCase CodecCase(std::string name, Codec before, Codec after) {
  return {std::move(name), "", [=](ChangedRun* first, ChangedRun* second) {
            first->tables["user"].slots[0].codec = before;
            second->tables["user"].slots[0].codec = after;
            for (const char* tensor : {"v", "w"}) {
              first->tensors[tensor].codec = before;
              second->tensors[tensor].codec = after;
            }
          }};
}

TableSharding ByHalves() {
  return TableSharding::ByFunction("halves", [](int64_t id, uint32_t world) {
    return id < kIds / 2 ? 0 : world - 1;
  });
}

// The second run restores with a policy.
ChangeCase EvolveCase(std::string name, std::string reason,
                      std::function<void(ChangedRun* second)> change) {
  return {
      std::move(name), std::move(reason),
      [change = std::move(change)](ChangedRun* /*first*/, ChangedRun* second) {
        second->evolve = EvolvePolicy();
        change(second);
      }};
}

// Writes each row of 4 numbers twice.
absl::Status Widen(const Slot& from, absl::Span<const int64_t> ids,
                   const char* rows, char* converted) {
  const uint64_t bytes = from.row_bytes();
  for (size_t r = 0; r < ids.size(); ++r) {
    std::memcpy(converted + 2 * r * bytes, rows + r * bytes, bytes);
    std::memcpy(converted + (2 * r + 1) * bytes, rows + r * bytes, bytes);
  }
  return absl::OkStatus();
}

std::vector<ChangeCase> AllChanges() {
  using Run = ChangedRun*;
  using Table = ChangedTable*;
  const std::string schema = "its schema (slots or slice hash)";
  const std::string in_full = "in full: ";
  const TableSharding slices = TableSharding::BySlices();
  return {
      {"Nothing", "", [](Run, Run) {}},
      UserCase("SlotOrder", schema, 1,
               [](Table, Table second) {
                 std::swap(second->slots[0], second->slots[1]);
               }),
      UserCase("SlotThatGoes", in_full, 1,
               [](Table, Table second) { second->slots.pop_back(); }),
      EvolveCase(
          "SlotThatComes", in_full,
          [](Run second) {
            second->tables["user"].slots.push_back({"sum", DType::kF32, 4});
            second->evolve->tables["user"].fill["sum"] = 0.5;
          }),
      EvolveCase("SlotThatIsRenamed", in_full,
                 [](Run second) {
                   second->tables["user"].slots[0].name = "vector";
                   second->evolve->tables["user"].oname["vector"] = "embedding";
                 }),
      EvolveCase("SlotWidth", in_full,
                 [](Run second) {
                   second->tables["user"].slots[0].elements = 8;
                   second->evolve->tables["user"].convert["embedding"] = Widen;
                 }),
      EvolveCase("SlotDType", in_full,
                 [](Run second) {
                   second->tables["user"].slots[1].dtype = DType::kF32;
                   second->evolve->cast = true;
                 }),
      UserCase("OptimizerFlag", "", 1,
               [](Table, Table second) { second->optimizer = {"freq"}; }),
      UserCase("SliceHash", schema, 1,
               [](Table, Table second) { second->hash = SliceHash::kMix; }),
      UserCase("SliceHashOfTwoRanks", schema, 2,
               [](Table first, Table) { first->hash = SliceHash::kMix; }),
      CodecCase("CodecNoneToBf16", Codec::kNone, Codec::kBf16),
      CodecCase("CodecBf16ToInt8", Codec::kBf16, Codec::kInt8),
      CodecCase("CodecInt8ToLz4", Codec::kInt8, Codec::kLz4),
      ShardingCase("SlicesToModulo", slices, TableSharding::ByModulo()),
      ShardingCase("ModuloToSlices", TableSharding::ByModulo(), slices),
      ShardingCase("SlicesToFunction", slices, ByHalves()),
      ShardingCase("FunctionToModulo", ByHalves(), TableSharding::ByModulo()),
      ShardingCase("RangeToFunction", TableSharding::ByRange(kIds), ByHalves()),
      ShardingCase("SlicesToRange", slices, TableSharding::ByRange(kIds)),
      ShardingCase("RangeToOtherRange", TableSharding::ByRange(kIds),
                   TableSharding::ByRange({0, 33, kIds})),
      WorldCase("WorldShrinksByRange", 3, 2, TableSharding::ByRange(kIds)),
      ShardingCase("ReplicatedToSlices", TableSharding::Replicated(), slices),
      ShardingCase("SlicesToReplicated", slices, TableSharding::Replicated()),
      {"Bounds", "",
       [](Run first, Run second) {
         first->world = second->world = 2;
         for (auto& [name, table] : second->tables) {
           table.sharding = TableSharding::BySlices({0, 10, kSlices});
         }
       }},
      WorldCase("WorldGrowsBySlices", 1, 2, slices),
      WorldCase("WorldShrinksBySlices", 3, 2, slices),
      WorldCase("WorldGrowsByModulo", 2, 3, TableSharding::ByModulo()),
      WorldCase("WorldShrinksByFunction", 3, 1, ByHalves()),
      WorldCase("WorldGrowsReplicated", 1, 3, TableSharding::Replicated()),
      {"TensorSharding", "",
       [](Run first, Run second) {
         first->world = second->world = 2;
         first->tensors["w"].sharded = true;
         second->tensors["v"].sharded = true;
       }},
      EvolveCase("TensorDType", "",
                 [](Run second) {
                   second->tensors["w"].dtype = DType::kI32;
                   second->evolve->exclude = {"w"};
                 }),
      {"TensorThatGoes", "",
       [](Run, Run second) { second->tensors.erase("v"); }},
      EvolveCase("TensorThatComes", "",
                 [](Run second) { second->tensors["x"] = {}; }),
      {"TableThatGoes", "",
       [](Run, Run second) { second->tables.erase("item"); }},
      EvolveCase("TableThatComes", "",
                 [](Run second) { second->tables["shop"] = {}; }),
      EvolveCase("TableThatIsRenamed", "",
                 [](Run second) {
                   second->tables.erase("item");
                   second->tables["shop"] = {};
                   second->evolve->oname = {{"shop", "item"}};
                 }),
      {"NamesOfTablesExchanged", in_full,
       [](Run first, Run second) {
         first->tables["user"].slots.pop_back();
         second->tables["item"].slots.pop_back();
         second->rule = LoadRule();
         second->rule->oname = {{"user", "item"}, {"item", "user"}};
       }},
      {"NamesOfTensorsExchanged", in_full,
       [](Run, Run second) {
         second->rule = LoadRule();
         second->rule->oname = {{"v", "w"}, {"w", "v"}};
       }},
      {"DeltasComeOn", "", [](Run first, Run) { first->deltas = false; }},
      {"DeltasGoOff", in_full, [](Run, Run second) { second->deltas = false; }},
  };
}

INSTANTIATE_TEST_SUITE_P(Changes, ChangedBetweenRunsTest,
                         ::testing::ValuesIn(AllChanges()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ckptdb::testing
