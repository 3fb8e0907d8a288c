// SPDX-License-Identifier: Apache-2.0
// Restores into a model that differs from the saved one.
#include <cstring>

#include "manager/tables.h"
#include "tests/manager/load/f32_table.h"
#include "tests/manager/test_options.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

// A process: a model of a table "user", if it has slots, and of a tensor "w",
// if it has weights, with a manager, the warnings and the reports.
struct Process {
  Process(ManagerOptions options, const std::vector<Slot>& slots,
          std::vector<float>* weights = nullptr,
          const std::string& name = "user")
      : users(slots) {
    if (!slots.empty()) {
      EXPECT_OK(model.AddTable(name, &users));
    }
    if (weights != nullptr) {
      const auto size = static_cast<int64_t>(weights->size());
      EXPECT_OK(model.AddTensor("w", TensorState::Of(weights->data(), {size})));
    }
    Reopen(std::move(options));
  }
  void Reopen(ManagerOptions options) {
    manager.reset();
    options.observers.on_warning = [this](const std::string& warning) {
      warnings.push_back(warning);
    };
    options.observers.on_saved = [this](const SaveReport& report) {
      saves.push_back(report);
    };
    ASSERT_OK_AND_ASSIGN(manager, CheckpointManager::Open(options, &model));
  }

  F32Table users;
  ModelState model;
  std::vector<std::string> warnings;
  std::vector<SaveReport> saves;
  std::unique_ptr<CheckpointManager> manager;
};

class EvolveTest : public ::testing::Test {
 protected:
  EvolveTest() : options_(TestOptions(dir_.path() + "/store")) {
    options_.save.async = false;
  }
  // Saves steps 1 to 3 of a tensor "w" and a table, the last two as deltas.
  void SaveThree(const std::string& name = "user",
                 const std::vector<Slot>& slots = {kEmbedding, kSum}) {
    std::vector<float> weights = {1, 2};
    Process first(options_, slots, &weights, name);
    size_t width = 0;
    for (const Slot& slot : slots) width += slot.elements;
    for (int step = 1; step <= 3; ++step) {
      std::vector<float> row(width);
      for (size_t i = 0; i < width; ++i) {
        row[i] = static_cast<float>(step * 10) + static_cast<float>(i);
      }
      first.users.Set(step, row);
      ASSERT_OK(first.manager->Step());
    }
    EXPECT_EQ(first.saves.back().result.kind, StepRecord::Kind::kDelta);
    ASSERT_OK(first.manager->Close());
  }
  static RestoreRequest By(EvolvePolicy policy) {
    return {.evolve = std::move(policy)};
  }
  // Restores the newest step into a model of one table with these slots,
  // without a policy.
  F32Table::Rows Stored(const std::string& name,
                        const std::vector<Slot>& slots) {
    Process process(options_, slots, nullptr, name);
    EXPECT_OK(process.manager->Restore());
    return process.users.rows();
  }
  // Returns why the table was saved in full in a step; empty if it was not.
  std::string BaseReason(Process* process, int64_t step) {
    const auto reader = process->manager->store()->OpenStep(step);
    EXPECT_OK(reader);
    for (const Item& item : (*reader)->ranks()[0].items) {
      if (item.kind == Item::Kind::kRows && item.run == Item::Run::kBase) {
        return item.base_reason;
      }
    }
    return "";
  }

  TempDir dir_;
  ManagerOptions options_;
};

TEST_F(EvolveTest, NewTensorAndTableKeepTheirValues) {
  SaveThree();
  std::vector<float> weights(2);
  std::vector<float> added = {7, 8};
  F32Table items({kEmbedding});
  items.Set(5, {5, 5});
  Process next(options_, {kEmbedding, kSum}, &weights);
  ASSERT_OK(next.model.AddTensor("new", TensorState::Of(added.data(), {2})));
  ASSERT_OK(next.model.AddTable("item", &items));
  next.Reopen(options_);
  EXPECT_THAT(next.manager->Restore(),
              FailedPrecondition("dense \"new\"", "RestoreRequest::evolve"));
  const RestoreReport report = next.manager->Restore(By({})).value();
  EXPECT_EQ(report.version.step, 3);
  EXPECT_EQ(next.manager->global_step(), 3);
  EXPECT_THAT(weights, ElementsAre(1, 2));
  EXPECT_THAT(added, ElementsAre(7, 8));
  EXPECT_THAT(items.rows(), ElementsAre(Pair(5, ElementsAre(5, 5))));
  std::map<std::string, LoadSummary::LoadedItem::Outcome> outcomes;
  for (const LoadSummary::LoadedItem& item : report.loaded.items) {
    outcomes[item.name] = item.outcome;
  }
  EXPECT_EQ(outcomes["w"], LoadSummary::LoadedItem::Outcome::kLoaded);
  EXPECT_EQ(outcomes["new"], LoadSummary::LoadedItem::Outcome::kMissing);
  EXPECT_THAT(next.warnings,
              ElementsAre(HasSubstr("step 3 does not have dense \"new\", "
                                    "sparse \"item\", so the model keeps its "
                                    "previous values")));
  // The lineage continues: the unchanged table is saved as changes.
  next.users.Set(9, {9, 9, 9});
  ASSERT_OK(next.manager->Step());
  EXPECT_EQ(next.manager->store()->FindStep(4).value().kind,
            StepRecord::Kind::kDelta);
  ASSERT_OK(next.manager->Close());
  EXPECT_EQ(Stored("user", {kEmbedding, kSum}).size(), 4U);
  EXPECT_EQ(Stored("item", {kEmbedding}).size(), 1U);
}

TEST_F(EvolveTest, RestoreFails_WhenNoItemMatches) {
  ASSERT_NO_FATAL_FAILURE(SaveThree());
  Process next(options_, {kEmbedding}, nullptr, "item");
  EXPECT_THAT(next.manager->RestoreOrStart({.evolve = EvolvePolicy{}}),
              FailedPrecondition("missing in the step: sparse \"item\"",
                                 "sparse \"user\""));
}

TEST_F(EvolveTest, StrictRestoreWarnsOfWhatTheNextSaveDrops) {
  SaveThree();
  Process next(options_, {kEmbedding});
  ASSERT_OK_AND_ASSIGN(const RestoreReport report, next.manager->Restore());
  EXPECT_THAT(report.loaded.unexpected, ElementsAre("w"));
  ASSERT_EQ(report.loaded.items[0].slot_changes.size(), 1U);
  EXPECT_EQ(report.loaded.items[0].slot_changes[0].kind,
            LoadSummary::SlotChange::Kind::kDropped);
  EXPECT_EQ(report.loaded.items[0].slot_changes[0].source, "adagrad_sum");
  EXPECT_THAT(
      next.warnings,
      ElementsAre(HasSubstr("step 3 has \"w\", slot \"adagrad_sum\" of table "
                            "\"user\", which is not registered and so not in "
                            "the next save")));
  ASSERT_OK(next.manager->Step());
  EXPECT_NE(BaseReason(&next, 4), "") << "its schema differs";
  next.users.Set(4, {4, 4});
  ASSERT_OK(next.manager->Step());
  EXPECT_EQ(BaseReason(&next, 5), "") << "deltas continue from there";
  ASSERT_OK(next.manager->Close());
  EXPECT_THAT(
      Stored("user", {kEmbedding}),
      ElementsAre(Pair(1, ElementsAre(10, 11)), Pair(2, ElementsAre(20, 21)),
                  Pair(3, ElementsAre(30, 31)), Pair(4, ElementsAre(4, 4))));
}

TEST_F(EvolveTest, NewSlotIsFilledByAValue_AndOnlyOnce) {
  SaveThree("user", {kEmbedding});
  const EvolvePolicy policy = {
      .tables = {{"user", {.fill = {{"adagrad_sum", 0.5}}}}}};
  Process next(options_, {kEmbedding, kSum});
  EXPECT_THAT(next.manager->Restore(By({})),
              FailedPrecondition("slot \"adagrad_sum\" is not in the step; set "
                                 "its values in EvolvePolicy::Table::fill"));
  EXPECT_THAT(next.users.rows(), IsEmpty());
  const RestoreReport report = next.manager->Restore(By(policy)).value();
  EXPECT_EQ(report.loaded.items[0].slot_changes[0].kind,
            LoadSummary::SlotChange::Kind::kFilled);
  EXPECT_THAT(next.users.rows(),
              ElementsAre(Pair(1, ElementsAre(10, 11, 0.5)),
                          Pair(2, ElementsAre(20, 21, 0.5)),
                          Pair(3, ElementsAre(30, 31, 0.5))));
  next.users.Set(2, {2, 2, 2});
  ASSERT_OK(next.manager->Step());
  EXPECT_THAT(BaseReason(&next, 4),
              HasSubstr("the restore of step 3 did not load it"));
  next.users.Set(3, {3, 3, 3});
  ASSERT_OK(next.manager->Step());
  EXPECT_EQ(BaseReason(&next, 5), "");
  ASSERT_OK(next.manager->Close());
  // The policy remains in the trainer's code.
  Process third(options_, {kEmbedding, kSum});
  EXPECT_THAT(
      third.manager->Restore(By(policy)).value().loaded.items[0].slot_changes,
      IsEmpty());
  EXPECT_EQ(third.users.rows(), next.users.rows());
  ASSERT_OK(third.manager->Step());
  EXPECT_EQ(BaseReason(&third, 6), "") << "deltas continue";
}

TEST_F(EvolveTest, NewSlotIsFilledByAFunctionOfIds) {
  SaveThree("user", {kEmbedding});
  EvolvePolicy policy;
  policy.tables["user"].fill_with["adagrad_sum"] =
      [](absl::Span<const int64_t> ids, char* rows) {
        for (size_t r = 0; r < ids.size(); ++r) {
          const auto value = static_cast<float>(ids[r]) / 2;
          std::memcpy(rows + r * sizeof(value), &value, sizeof(value));
        }
        return absl::OkStatus();
      };
  Process next(options_, {kSum, kEmbedding});  // in another order
  ASSERT_OK(next.manager->Restore(By(policy)));
  EXPECT_THAT(next.users.rows(),
              ElementsAre(Pair(1, ElementsAre(0.5, 10, 11)),
                          Pair(2, ElementsAre(1, 20, 21)),
                          Pair(3, ElementsAre(1.5, 30, 31))));
  policy.tables["user"].fill_with["adagrad_sum"] = [](absl::Span<const int64_t>,
                                                      char*) -> absl::Status {
    return absl::NotFoundError("no such feature");
  };
  EXPECT_THAT(
      next.manager->Restore(By(policy)),
      FailedPrecondition(
          "table \"user\": filling slot \"adagrad_sum\": no such feature"));
}

// Only the ids are read.
TEST_F(EvolveTest, TableOfOnlyNewSlotsIsFilled) {
  SaveThree("user", {kEmbedding});
  Process next(options_, {kSum});
  ASSERT_OK(next.manager->Restore(
      By({.tables = {{"user", {.fill = {{"adagrad_sum", 2}}}}}})));
  EXPECT_THAT(next.users.rows(),
              ElementsAre(Pair(1, ElementsAre(2)), Pair(2, ElementsAre(2)),
                          Pair(3, ElementsAre(2))));
}

TEST_F(EvolveTest, RenamedTableAndSlotAreFoundByOname) {
  SaveThree("member", {{"weight", DType::kF32, 2}, kSum});
  const EvolvePolicy policy = {
      .oname = {{"user", "member"}},
      .tables = {{"user", {.oname = {{"embedding", "weight"}}}}}};
  Process next(options_, {kEmbedding, kSum});
  const RestoreReport report = next.manager->Restore(By(policy)).value();
  EXPECT_EQ(report.loaded.items[0].source, "member");
  EXPECT_THAT(report.loaded.unexpected, ElementsAre("w"));
  EXPECT_EQ(next.users.rows().at(2), (std::vector<float>{20, 21, 22}));
  next.users.Set(2, {2, 2, 2});
  ASSERT_OK(next.manager->Step());
  next.users.Set(3, {3, 3, 3});
  ASSERT_OK(next.manager->Step());
  EXPECT_EQ(BaseReason(&next, 5), "");
  ASSERT_OK(next.manager->Close());
  EXPECT_EQ(Stored("user", {kEmbedding, kSum}), next.users.rows());
  // The step has the new name by now, which takes precedence over the old one.
  Process third(options_, {kEmbedding, kSum});
  ASSERT_OK(third.manager->Restore(By(policy)));
  EXPECT_EQ(third.users.rows(), next.users.rows());
}

// Its schema is unchanged, but its rows differ from the parent's.
TEST_F(EvolveTest, ExcludedTableIsSavedInFull) {
  SaveThree();
  Process next(options_, {kEmbedding, kSum});
  next.users.Set(77, {7, 7, 7});
  ASSERT_OK(next.manager->Restore(By({.exclude = {"user"}})));
  EXPECT_THAT(
      next.warnings,
      Contains(HasSubstr(
          "step 3: EvolvePolicy::exclude leaves out table \"user\" (at most 3 "
          "rows), so the next save lacks its rows")));
  EXPECT_EQ(next.users.rows().size(), 1U);
  ASSERT_OK(next.manager->Step());
  ASSERT_OK(next.manager->Close());
  EXPECT_THAT(Stored("user", {kEmbedding, kSum}),
              ElementsAre(Pair(77, ElementsAre(7, 7, 7))));
}

TEST_F(EvolveTest, TableOfAnotherWidthIsConverted) {
  SaveThree();
  const Slot wide = {"embedding", DType::kF32, 4};
  EvolvePolicy policy;
  policy.tables["user"].convert["embedding"] =
      [](const Slot& from, absl::Span<const int64_t> ids, const char* rows,
         char* converted) {
        for (size_t r = 0; r < ids.size(); ++r) {
          for (size_t e = 0; e < 4; ++e) {
            float value = -1;
            if (e < from.elements) {
              std::memcpy(&value, rows + r * from.row_bytes() + e * 4, 4);
            }
            std::memcpy(converted + r * 16 + e * 4, &value, 4);
          }
        }
        return absl::OkStatus();
      };
  Process next(options_, {wide, kSum});
  EXPECT_THAT(
      next.manager->Restore(By({})),
      FailedPrecondition("expected [embedding f32 x 4",
                         "slot \"embedding\" is f32 x 2 in the step; convert "
                         "it by a function in EvolvePolicy::Table::convert"));
  const RestoreReport report = next.manager->Restore(By(policy)).value();
  EXPECT_EQ(report.loaded.items[0].slot_changes[0].kind,
            LoadSummary::SlotChange::Kind::kConverted);
  EXPECT_EQ(next.users.rows().at(2), (std::vector<float>{20, 21, -1, -1, 22}));
  next.users.Set(2, {1, 2, 3, 4, 5});
  ASSERT_OK(next.manager->Step());
  next.users.Set(8, {8, 8, 8, 8, 8});
  ASSERT_OK(next.manager->Step());
  EXPECT_EQ(BaseReason(&next, 5), "");
  ASSERT_OK(next.manager->Close());
  EXPECT_EQ(Stored("user", {wide, kSum}), next.users.rows());
}

TEST_F(EvolveTest, TensorOfAnotherShapeIsUnchanged_WhenExcluded) {
  SaveThree();
  std::vector<float> weights = {5, 5, 5};
  Process next(options_, {}, &weights);
  EXPECT_THAT(next.manager->Restore(By({})),
              FailedPrecondition("dense \"w\": expected f32 [3], got f32 [2]; ",
                                 "set how to restore them in EvolvePolicy"));
  ASSERT_OK(next.manager->Restore(By({.exclude = {"w"}})));
  EXPECT_THAT(weights, Each(5));
  EXPECT_EQ(next.manager->global_step(), 3);
}

TEST_F(EvolveTest, DtypeIsCastWhenAllowed) {
  SaveThree();
  std::vector<double> weights(2);
  Process next(options_, {});
  ASSERT_OK(next.model.AddTensor("w", TensorState::Of(weights.data(), {2})));
  next.Reopen(options_);
  for (const auto& evolve : {std::optional<EvolvePolicy>(), {EvolvePolicy()}}) {
    EXPECT_THAT(next.manager->Restore({.evolve = evolve}),
                FailedPrecondition(
                    "got f32 [2]; set EvolvePolicy::cast, which converts it",
                    Not(HasSubstr("load rule"))));
  }
  ASSERT_OK(next.manager->Restore(By({.cast = true})));
  EXPECT_THAT(weights, ElementsAre(1, 2));
  ASSERT_OK(next.manager->Step());
  EXPECT_EQ(next.manager->global_step(), 4);
}

TEST_F(EvolveTest, ErrorNamesTheNearestNameForAnUnmatchedKey) {
  SaveThree();
  Process next(options_, {kEmbedding, kSum});
  const std::pair<EvolvePolicy, const char*> cases[] = {
      {{.oname = {{"usr", "member"}}},
       "oname key \"usr\" matches nothing registered; did you mean "
       "\"user\"?"},
      {{.exclude = {"usr"}}, "exclude pattern \"usr\""},
      {{.tables = {{"usr", {}}}}, "tables key \"usr\""},
      {{.tables = {{"user", {.fill = {{"adagrad", 0}}}}}},
       "slot of table \"user\" \"adagrad\" matches nothing "
       "registered; did you mean \"adagrad_sum\"?"},
  };
  for (const auto& [policy, what] : cases) {
    EXPECT_THAT(next.manager->Restore(By(policy)), InvalidArgument(what));
  }
  EXPECT_THAT(next.users.rows(), IsEmpty());
}

TEST_F(EvolveTest, FillValueMustFitTheDtype) {
  SaveThree("user", {kEmbedding});
  ColumnTable users({kEmbedding, {"age", DType::kU8, 1}});
  Process next(options_, {});
  ASSERT_OK(next.model.AddTable("user", &users));
  next.Reopen(options_);
  for (const double value : {0.5, -1.0, 256.0}) {
    EXPECT_THAT(next.manager->Restore(
                    By({.tables = {{"user", {.fill = {{"age", value}}}}}})),
                FailedPrecondition(absl::StrCat("slot \"age\": the fill value ",
                                                value, " is not in u8")));
  }
  ASSERT_OK(next.manager->Restore(
      By({.tables = {{"user", {.fill = {{"age", 255}}}}}})));
  ASSERT_OK_AND_ASSIGN(const auto ages, users.column<uint8_t>("age"));
  EXPECT_EQ(ages[*users.Find(2)][0], 255);
}

TEST_F(EvolveTest, FillValueMustNotBecomeInfinite) {
  SaveThree("user", {kEmbedding});
  Process next(options_, {kEmbedding, kSum});
  EXPECT_THAT(next.manager->Restore(By(
                  {.tables = {{"user", {.fill = {{"adagrad_sum", 1e300}}}}}})),
              FailedPrecondition("the fill value 1e+300 is not in f32"));
}

TEST_F(EvolveTest, ConfigurationSetsThePolicy) {
  SaveThree("member", {{"weight", DType::kF32, 2}});
  ASSERT_OK(ReadManagerConfig(R"({"evolve": {
      "oname": {"user": "member"}, "exclude": ["w"], "cast": true,
      "tables": {"user": {"oname": {"embedding": "weight"},
                          "fill": {"adagrad_sum": 0.25}}}}})",
                              &options_));
  std::vector<float> weights(3);
  Process next(options_, {kEmbedding, kSum}, &weights);
  ASSERT_OK(next.manager->Restore());
  EXPECT_EQ(next.users.rows().at(3), (std::vector<float>{30, 31, 0.25}));
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"evolve": {"onames": {}}})", "did you mean \"oname\"?"},
      {R"({"evolve": {"tables": {"user": {"convert": {}}}}})",
       "manager.evolve.tables.user: unknown key \"convert\""},
      {R"({"evolve": {"tables": {"user": {"fill": {"a": "b"}}}}})",
       "manager.evolve.tables.user.fill: \"a\" is \"b\"; expected a "
       "number"},
      {R"({"evolve": {"tables": {"user": 3}}})", "expected an object"},
  };
  for (const auto& [json, what] : wrong) {
    ManagerOptions options;
    EXPECT_THAT(ReadManagerConfig(json, &options), InvalidArgument(what))
        << json;
    EXPECT_FALSE(options.restore.evolve.has_value());
  }
}

TEST_F(EvolveTest, FollowerOfAnOlderModelIsUpdatedByChanges) {
  Process trainer(options_, {kEmbedding});
  trainer.users.Set(1, {1, 1});
  ASSERT_OK(trainer.manager->Step());

  F32Table copy({kEmbedding, kSum});
  ModelState model;
  ASSERT_OK(model.AddTable("user", &copy));
  ManagerOptions reading = {.path = options_.path, .read_only = true};
  reading.restore.evolve =
      EvolvePolicy{.tables = {{"user", {.fill = {{"adagrad_sum", 3}}}}}};
  ASSERT_OK_AND_ASSIGN(const auto follower,
                       CheckpointManager::Open(reading, &model));
  ASSERT_OK(follower->WaitForStep(absl::Seconds(60)));
  trainer.users.Set(2, {2, 2});
  ASSERT_OK(trainer.manager->Step());
  EXPECT_TRUE(follower->WaitForStep(absl::Seconds(60)).value().incremental);
  EXPECT_THAT(copy.rows(), ElementsAre(Pair(1, ElementsAre(1, 1, 3)),
                                       Pair(2, ElementsAre(2, 2, 3))));
  // After a restore with another policy, changes cannot be applied to the
  // model.
  ASSERT_OK(follower->Restore(By({.exclude = {"user"}})));
  trainer.users.Set(3, {3, 3});
  ASSERT_OK(trainer.manager->Step());
  EXPECT_FALSE(follower->WaitForStep(absl::Seconds(60)).value().incremental);
  EXPECT_EQ(copy.rows().size(), 3U);
}

// A wrong old name must not turn the item or slot into a new one, whose next
// save would replace the trained values.
TEST_F(EvolveTest, OldNameThatTheStepLacksIsAnError) {
  SaveThree("member", {{"weight", DType::kF32, 2}, kSum});
  Process next(options_, {kEmbedding, kSum});
  EXPECT_THAT(
      next.manager->Restore(By({.oname = {{"user", "memebr"}}})),
      FailedPrecondition("missing in the step: sparse \"memebr\" (did you mean "
                         "sparse \"member\"?)"));
  EvolvePolicy policy = {
      .oname = {{"user", "member"}},
      .tables = {{"user", {.oname = {{"embedding", "wieght"}}}}}};
  const auto is_wrong_slot = FailedPrecondition(
      "the step has neither slot \"embedding\" nor \"wieght\", which "
      "EvolvePolicy::Table::oname maps it to (did you mean "
      "\"weight\"?)");
  EXPECT_THAT(next.manager->Restore(By(policy)), is_wrong_slot);
  // Even if it could be filled.
  policy.tables["user"].fill = {{"embedding", 1}};
  EXPECT_THAT(next.manager->Restore(By(policy)), is_wrong_slot);
  EXPECT_THAT(next.users.rows(), IsEmpty());
  policy.tables["user"].oname = {{"embedding", "weight"}};
  ASSERT_OK(next.manager->Restore(By(policy)));
  EXPECT_EQ(next.users.rows().size(), 3U);
}

// Tensors of one element, with a manager.
struct Tensors {
  Tensors(const ManagerOptions& options,
          const std::map<std::string, float>& tensors)
      : values(tensors) {
    for (auto& [name, value] : values) {
      EXPECT_OK(model.AddTensor(name, TensorState::Of(&value, {1})));
    }
    manager = CheckpointManager::Open(options, &model).value();
  }
  std::map<std::string, float> values;
  ModelState model;
  std::unique_ptr<CheckpointManager> manager;
};

class RenamedPartTest : public EvolveTest {
 protected:
  RenamedPartTest() {
    Tensors first(options_, {{"model.a", 1.F}, {"model.sub.b", 2.F}});
    EXPECT_OK(first.manager->Step());
    EXPECT_OK(first.manager->Close());
  }
};

TEST_F(RenamedPartTest, RenamesEverythingBelowIt) {
  Tensors next(options_, {{"net.a", 0.F}, {"net.lower.b", 0.F}});
  const EvolvePolicy policy = {
      .oname = {{"net", "model"}, {"net.lower", "model.sub"}}};
  ASSERT_OK(next.manager->Restore(By(policy)));
  EXPECT_THAT(next.values,
              ElementsAre(Pair("net.a", 1.F), Pair("net.lower.b", 2.F)));
  ASSERT_OK(next.manager->Step());
  // The step now has the new names.
  ASSERT_OK(next.manager->Close());
  Tensors third(options_,
                {{"net.a", 0.F}, {"net.c", 8.F}, {"net.lower.b", 0.F}});
  ASSERT_OK(third.manager->Restore(By(policy)));
  EXPECT_THAT(third.values, ElementsAre(Pair("net.a", 1.F), Pair("net.c", 8.F),
                                        Pair("net.lower.b", 2.F)));
}

TEST_F(RenamedPartTest, NewItemsBelowItKeepTheirValues) {
  Tensors next(options_, {{"net.a", 0.F}, {"net.added", 7.F}});
  const EvolvePolicy misspelt = {.oname = {{"net", "modle"}}};
  EXPECT_THAT(next.manager->Restore(By(misspelt)),
              FailedPrecondition("dense \"modle.a\" (did you mean dense "
                                 "\"model.a\"?), dense \"modle.added\""));
  EXPECT_THAT(next.manager->Restore(By({.oname = {{"nett", "model"}}})),
              InvalidArgument("oname key \"nett\" matches nothing registered; "
                              "did you mean \"net\"?"));
  ASSERT_OK(next.manager->Restore(By({.oname = {{"net", "model"}}})));
  EXPECT_THAT(next.values,
              ElementsAre(Pair("net.a", 1.F), Pair("net.added", 7.F)));
}

TEST_F(RenamedPartTest, LoadExchangesTwoParts) {
  ManagerOptions other = options_;
  other.path += "-of-two";
  {
    Tensors two(other, {{"l.x", 1.F}, {"l.z", 3.F}, {"r.x", 2.F}});
    ASSERT_OK(two.manager->Step());
    ASSERT_OK(two.manager->Close());
  }
  Tensors next(options_, {{"l.x", 0.F}, {"l.z", 0.F}, {"r.x", 0.F}});
  ASSERT_OK(next.manager->Load(
      {{.path = other.path, .oname = {{"l", "r"}, {"r", "l"}}}}));
  EXPECT_THAT(next.values,
              ElementsAre(Pair("l.x", 2.F), Pair("l.z", 3.F), Pair("r.x", 1.F)))
      << "r.z is not in the step";
}

}  // namespace
}  // namespace ckptdb::testing
