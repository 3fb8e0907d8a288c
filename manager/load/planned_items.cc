// SPDX-License-Identifier: Apache-2.0
#include "manager/load/planned_items.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "manager/load/capacity_check.h"
#include "manager/load/evolved_table.h"
#include "manager/load/load_patterns.h"
#include "manager/load/row_exchange.h"
#include "manager/load/slot_plan.h"
#include "manager/load/step_items.h"
#include "manager/load/tensor_load.h"
#include "manager/state/categories.h"
#include "manager/state/model_sharding.h"
#include "manager/state/registered_state.h"
#include "manager/state/value_types.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

const Shape& GlobalShape(const TensorState& tensor) {
  return tensor.sharded() ? tensor.global_shape : tensor.shape;
}

std::string TypeOf(DType dtype, const Shape& shape) {
  return absl::StrCat(DTypeName(dtype), " ", ToString(shape));
}

// Returns a description if the step was sharded by another function than the
// model declares, and otherwise an empty string. With any other sharding, ids
// suffice to find the rows, and a single rank has them all.
std::string ShardingMismatch(const StepReader::TableSpec& table,
                             const TableSharding& sharding,
                             uint32_t world_size) {
  if (world_size == 1 || table.sharding != Item::Sharding::kCustom ||
      sharding.kind() != Item::Sharding::kCustom ||
      table.sharding_name == sharding.name()) {
    return "";
  }
  return absl::StrCat("its rows were divided among ranks by the function \"",
                      absl::Utf8SafeCHexEscape(table.sharding_name),
                      "\", but the model declares \"",
                      absl::Utf8SafeCHexEscape(sharding.name()),
                      "\"; declare it under its old name, or restore and save "
                      "once with another kind of sharding, such as "
                      "TableSharding::ByModulo(), or on one rank");
}

void NoteSize(const StepReader::TableSpec& table, const std::vector<Slot>& read,
              LoadedItem* item) {
  item->rows = table.rows;
  item->exact = table.exact;
  item->bytes = table.rows * sizeof(int64_t);
  for (const Slot& slot : read) item->bytes += table.rows * slot.row_bytes();
}

// The plan of the restore of one table.
struct TableLoad {
  const StepReader* step;
  const ChangeReader* changes;  // null if all rows are read
  std::string source;           // its name in the step
  LiveTable::RestoreMode mode;
  ScanOptions scan;
  std::shared_ptr<RowFilter> filter;
  std::shared_ptr<LiveTable> live;
};

// Applies the changes to the table if there are any; otherwise reads all of it.
// The filter only skips a row for which the sharding's function returns no
// rank, so that error is checked after the scan.
absl::Status LoadTable(const TableLoad& load) {
  absl::Status status =
      absl::FailedPreconditionError("there are no changes to the step");
  if (load.changes != nullptr) {
    status = load.changes->ScanTable(load.source, load.scan, load.live.get());
  }
  // There are no changes, or one of the steps between saved the table in full.
  if (absl::IsFailedPrecondition(status)) {
    status = load.step->RestoreTable(load.source, load.mode, load.scan,
                                     load.live.get());
  }
  CKPTDB_RETURN_IF_ERROR(status);
  return Annotate(load.filter->status(),
                  absl::StrCat("table \"", load.source, "\""));
}

LiveTable::RestoreMode ModeOf(const LoadRule& rule) {
  return rule.hashtable_clear ? LiveTable::RestoreMode::kClear
                              : LiveTable::RestoreMode::kMerge;
}

// Returns a rank's blob in the step; null if it has none.
const Item* FindBlob(const StepReader& step, uint32_t rank,
                     absl::string_view name) {
  for (const Item& item : step.ranks()[rank].items) {
    if (item.kind == Item::Kind::kBlob && item.name == name) return &item;
  }
  return nullptr;
}

std::vector<std::string> NamesOf(const std::vector<Slot>& slots) {
  std::vector<std::string> names;
  for (const Slot& slot : slots) names.push_back(slot.name);
  return names;
}

// Returns the load of each shard, as `load` says.
std::function<absl::Status()> LoadOf(
    TensorLoad load, absl::Span<const RegisteredTensor* const> shards) {
  std::vector<TensorLoad> loads;
  for (const RegisteredTensor* shard : shards) {
    load.state = shard->state;
    loads.push_back(load);
  }
  return [loads = std::move(loads)]() -> absl::Status {
    for (const TensorLoad& each : loads) {
      CKPTDB_RETURN_IF_ERROR(LoadTensor(each));
    }
    return absl::OkStatus();
  };
}

// Adds the items that a rule chooses to a plan.
class ItemPlanner {
 public:
  ItemPlanner(const LoadInputs& inputs, const ReadOptions& read,
              const LoadRule& rule)
      : step_(inputs.step),
        changes_(inputs.changes),
        options_(inputs.options),
        read_(read),
        shard_(inputs.shard),
        ranks_(inputs.ranks),
        cast_remedy_(inputs.cast_remedy),
        rule_(rule),
        value_types_(ValueTypesOf(step_.record())) {}

  // `shards` are those of one tensor.
  absl::Status Add(absl::Span<const RegisteredTensor* const> shards) {
    const RegisteredTensor& tensor = *shards.front();
    PlannedItem* const planned = Choose(kDense, tensor.name);
    if (planned == nullptr) return absl::OkStatus();
    const std::string source = planned->item.source;
    const auto found = step_.FindTensor(source);
    if (!found.ok()) return Missing(found.status(), planned);
    // Sets the size before checking the item, because a dry run shows it for
    // items that do not fit, too.
    planned->item.bytes = found->raw_bytes;
    const Shape& shape = GlobalShape(tensor.state);
    const DType from = found->dtype;
    const DType to = tensor.state.dtype;
    const bool can_cast = found->shape == shape && CanCast(from, to);
    if (!can_cast || (from != to && !rule_.cast)) {
      return DoesNotFit(Misfit(TypeOf(to, shape), TypeOf(from, found->shape),
                               can_cast ? cast_remedy_ : ""),
                        planned);
    }
    TensorLoad load = {&step_,
                       read_,
                       source,
                       from,
                       /*state=*/{},
                       /*ranks=*/nullptr,
                       options_.ranks.deadline};
    // Each rank reads a cast tensor in pieces for itself, so it is not
    // broadcast.
    if (from != to) {
      planned->item.slot_changes.push_back(
          {LoadSummary::SlotChange::Kind::kCast, "", "", from, to});
    } else if (Broadcasts(tensor.state)) {
      planned->together = true;
      load.ranks = ranks_;
    } else if (tensor.state.device == nullptr && !tensor.state.sharded()) {
      planned->whole = tensor.state.data;
    }
    planned->load = LoadOf(load, shards);
    return absl::OkStatus();
  }

  absl::Status Add(const RegisteredTable& table,
                   const TableSharding& sharding) {
    const std::vector<Slot> registered = table.state->slots();
    const std::vector<Slot> slots = ChosenSlots(table, registered);
    if (slots.empty()) return absl::OkStatus();
    PlannedItem* const planned = Append(kSparse, table.name);
    const auto found = step_.FindTable(planned->item.source);
    if (!found.ok()) return Missing(found.status(), planned);
    SlotPlan plan = PlanSlots({registered, slots, found->slots,
                               EvolutionOf(table, registered, found->slots),
                               rule_.cast, cast_remedy_});
    NoteSize(*found, plan.inputs, &planned->item);
    planned->item.slot_changes = plan.changes;
    const std::string mismatch =
        ShardingMismatch(*found, sharding, shard_.world_size);
    planned->names_remedy = !mismatch.empty();
    if (!mismatch.empty()) return DoesNotFit(mismatch, planned);
    if (!plan.misfit.empty()) return DoesNotFit(plan.misfit, planned);
    // Called last, because it constructs the receiver of the rows.
    LiveTable* const own = table.state->Live(NamesOf(slots));
    if (own == nullptr) {
      return DoesNotFit(
          absl::StrCat("TableState::Live does not accept rows of ",
                       SlotList(slots)),
          planned);
    }
    planned->tracker = table.state->tracker();
    planned->item.slot_changes.insert(planned->item.slot_changes.begin(),
                                      plan.casts.begin(), plan.casts.end());
    planned->as_in_step = planned->item.source == table.name &&
                          plan.changes.empty() && plan.casts.empty() &&
                          slots.size() == registered.size();
    ScanOptions scan;
    scan.read = read_;
    scan.slots = NamesOf(plan.inputs);
    scan.ids_only = plan.inputs.empty();
    Plan(table, *found, RowsToRead(table, sharding), std::move(scan),
         ReceiverOf(planned->item.source, std::move(plan), own), planned);
    return absl::OkStatus();
  }

  // Returns what the rule says of the table, and the table's own conversions of
  // slots that have changed.
  EvolvePolicy::Table EvolutionOf(const RegisteredTable& table,
                                  const std::vector<Slot>& slots,
                                  const std::vector<Slot>& in_step) const {
    const auto rule = rule_.tables.find(table.name);
    EvolvePolicy::Table evolution =
        rule == rule_.tables.end() ? EvolvePolicy::Table() : rule->second;
    for (const Slot& to : slots) {
      for (const Slot& from : in_step) {
        if (from.name != to.name || SameSlots({&from, 1}, {&to, 1})) continue;
        auto convert = table.state->Converter(from, to);
        if (convert) evolution.convert.emplace(to.name, std::move(convert));
      }
    }
    return evolution;
  }

  // A table whose columns are divided needs all rows on each rank, whichever
  // rank saves a row.
  static TableSharding RowsToRead(const RegisteredTable& table,
                                  const TableSharding& sharding) {
    return table.state->columns().has_value() ? TableSharding::Replicated()
                                              : sharding;
  }

  // Returns the receiver of the step's rows: the table's own receiver, which
  // the table owns, or one that computes its slots.
  std::shared_ptr<LiveTable> ReceiverOf(const std::string& source,
                                        SlotPlan plan, LiveTable* own) const {
    if (plan.direct()) return {own, [](LiveTable*) {}};
    return std::make_shared<EvolvedTable>(source, std::move(plan.slots),
                                          read_.threads, own);
  }

  // Plans how a fitting table's rows reach `live`.
  void Plan(const RegisteredTable& table, const StepReader::TableSpec& found,
            const TableSharding& sharding, ScanOptions scan,
            const std::shared_ptr<LiveTable>& live,
            PlannedItem* planned) const {
    const SliceHash hash = table.state->slice_hash();
    const std::string& source = planned->item.source;
    const auto columns = table.state->columns();
    if (columns.has_value() && columns->empty()) {
      planned->load = [] { return absl::OkStatus(); };  // no rows
      return;
    }
    PlanCheck(table, found, sharding, scan, planned);
    if (Exchanges(found, sharding)) {
      planned->together = true;
      planned->load = [exchange = RowExchange{&step_, source, ModeOf(rule_),
                                              scan, sharding, hash, live.get(),
                                              ranks_, options_.ranks.deadline},
                       live] { return RestoreByExchange(exchange); };
      return;
    }
    // The scan uses the filter, so the plan owns both.
    const auto filter = std::make_shared<RowFilter>(sharding, hash, shard_.rank,
                                                    shard_.world_size);
    filter->Apply(found, &scan);
    planned->load = [load = TableLoad{&step_, changes_, source, ModeOf(rule_),
                                      scan, filter, live}] {
      return LoadTable(load);
    };
  }

  // Restores of changes are not checked, because the table already holds the
  // earlier rows.
  void PlanCheck(const RegisteredTable& table,
                 const StepReader::TableSpec& found,
                 const TableSharding& sharding, const ScanOptions& scan,
                 PlannedItem* planned) const {
    const std::optional<uint64_t> capacity = table.state->capacity();
    if (!capacity.has_value() || changes_ != nullptr) return;
    const auto filter = std::make_shared<RowFilter>(
        sharding, table.state->slice_hash(), shard_.rank, shard_.world_size);
    CapacityCheck check = {&step_, planned->item.source, ModeOf(rule_), scan,
                           filter, table.state,          *capacity};
    filter->Apply(found, &check.scan);
    planned->check = [check = std::move(check)] { return check.Run(); };
  }

  absl::Status Add(const RegisteredExtra& extra) {
    PlannedItem* const planned = Choose(kExtra, extra.name);
    if (planned == nullptr) return absl::OkStatus();
    const std::string blob = ExtraBlob(planned->item.source);
    // Only the owner saves objects, and every rank reads the owner's blob.
    const Item* const found = FindBlob(step_, kOwnerRank, blob);
    if (found == nullptr) return Missing(NoBlob(kOwnerRank, blob), planned);
    planned->item.bytes = found->raw_bytes;
    std::string misfit = ValueMisfit(extra, planned->item);
    if (!misfit.empty()) return DoesNotFit(std::move(misfit), planned);
    planned->load = [this_step = &step_, read = read_, blob, load = extra.load,
                     name = extra.name]() -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                              this_step->ReadBlob(kOwnerRank, blob, read));
      return Annotate(load(bytes), absl::StrCat("\"", name, "\""));
    };
    return absl::OkStatus();
  }

  // Returns a description of the mismatch if the step stores a value of another
  // type, or an empty string. Steps saved by older versions record no types, so
  // only the size of fixed-size values is compared.
  std::string ValueMisfit(const RegisteredExtra& value,
                          const LoadedItem& item) const {
    if (value.type.empty()) return "";
    const auto saved = value_types_.find(item.source);
    if (saved != value_types_.end()) {
      return saved->second == value.type ? ""
                                         : Misfit(value.type, saved->second);
    }
    if (value.bytes == 0 || value.bytes == item.bytes) return "";
    return Misfit(absl::StrCat(value.type, " of ", value.bytes, " bytes"),
                  absl::StrCat("a value of ", item.bytes, " bytes"));
  }

  // Returns the ranks whose io states this rank loads from a step that `saved`
  // ranks saved.
  std::vector<uint32_t> RanksToRead(
      uint32_t saved, ManagerOptions::IoStateResize resize) const {
    if (saved == shard_.world_size) return {shard_.rank};
    if (resize == ManagerOptions::IoStateResize::kOwners) return {kOwnerRank};
    if (resize == ManagerOptions::IoStateResize::kWrap) {
      return {shard_.rank % saved};
    }
    std::vector<uint32_t> ranks;
    if (resize == ManagerOptions::IoStateResize::kRedistribute) {
      for (uint32_t rank = 0; rank < saved; ++rank) ranks.push_back(rank);
    }
    return ranks;
  }

  absl::Status Add(const RegisteredIo& io) {
    PlannedItem* const planned = Choose(kIoState, io.name);
    if (planned == nullptr) return absl::OkStatus();
    const uint32_t saved = step_.record().world_size;
    const bool same_world = saved == shard_.world_size;
    const ManagerOptions::IoStateResize resize =
        options_.restore.io_state_resize.value_or(
            ManagerOptions::IoStateResize::kError);
    if (!same_world && resize == ManagerOptions::IoStateResize::kError) {
      planned->names_remedy = true;
      return DoesNotFit(
          absl::StrCat(Misfit(absl::StrCat("world size ", shard_.world_size),
                              absl::StrCat("world size ", saved)),
                       "; set ManagerOptions::restore.io_state_resize"),
          planned);
    }
    // Looks up all blobs now, so that a missing one is detected before the
    // model changes.
    const std::vector<uint32_t> ranks = RanksToRead(saved, resize);
    const std::string blob = IoStateBlob(planned->item.source);
    for (const uint32_t rank : ranks) {
      const Item* const found = FindBlob(step_, rank, blob);
      if (found == nullptr) return Missing(NoBlob(rank, blob), planned);
      planned->item.bytes += found->raw_bytes;
    }
    planned->load = [this_step = &step_, read = read_, blob, ranks,
                     all =
                         !same_world &&
                         resize == ManagerOptions::IoStateResize::kRedistribute,
                     state = io.state, name = io.name]() -> absl::Status {
      std::vector<std::string> parts;
      for (const uint32_t rank : ranks) {
        CKPTDB_ASSIGN_OR_RETURN(parts.emplace_back(),
                                this_step->ReadBlob(rank, blob, read));
      }
      if (parts.empty()) return absl::OkStatus();  // unchanged
      return Annotate(all ? state->Redistribute(parts) : state->Load(parts[0]),
                      absl::StrCat("io state \"", name, "\""));
    };
    return absl::OkStatus();
  }

  std::vector<PlannedItem> TakeItems() { return std::move(items_); }

 private:
  // These two need all ranks to load together. A rank that restores alone, with
  // ManagerOptions::follow.shard, has a single-rank coordinator and reads for
  // itself.
  bool Broadcasts(const TensorState& tensor) const {
    return options_.ranks.broadcast_replicated && !tensor.sharded() &&
           shard_.world_size > 1 && ranks_->world_size() == shard_.world_size;
  }
  bool Exchanges(const StepReader::TableSpec& table,
                 const TableSharding& sharding) const {
    return changes_ == nullptr && ranks_->world_size() == shard_.world_size &&
           ShouldExchange(table, step_.record().world_size, sharding, *ranks_);
  }
  PlannedItem* Append(absl::string_view category, const std::string& name) {
    PlannedItem& planned = items_.emplace_back();
    planned.item.category = std::string(category);
    planned.item.name = name;
    planned.item.source = SourceOf(rule_.oname, name);
    return &planned;
  }
  // Returns a new item of the plan; null if the rule does not choose it.
  PlannedItem* Choose(absl::string_view category, const std::string& name) {
    const bool chosen = Matches(rule_.load, category, name) &&
                        !Matches(rule_.exclude, category, name);
    return chosen ? Append(category, name) : nullptr;
  }
  // A rule chooses slots rather than tables: "sparse" without "sparse_opt"
  // neither reads nor changes the optimizer's slots.
  std::vector<Slot> ChosenSlots(const RegisteredTable& table,
                                const std::vector<Slot>& registered) const {
    const std::vector<std::string> optimizer = table.state->optimizer_slots();
    std::vector<Slot> chosen;
    for (const Slot& slot : registered) {
      const bool is_optimizer = std::find(optimizer.begin(), optimizer.end(),
                                          slot.name) != optimizer.end();
      const char* const category = is_optimizer ? kSparseOpt : kSparse;
      if (Matches(rule_.load, category, table.name) &&
          !Matches(rule_.exclude, category, table.name)) {
        chosen.push_back(slot);
      }
    }
    return chosen;
  }

  static absl::Status NoBlob(uint32_t rank, absl::string_view blob) {
    return absl::NotFoundError(
        absl::StrCat("rank ", rank, " has no blob \"", blob, "\""));
  }
  // Only an item that cannot be read at all is an error here.
  static absl::Status Missing(const absl::Status& status,
                              PlannedItem* planned) {
    if (!absl::IsNotFound(status)) return status;
    planned->item.outcome = LoadedItem::Outcome::kMissing;
    return absl::OkStatus();
  }
  // A misfit is not an error of the plan: Check names all of them at once, and
  // a rule that is not strict skips them.
  static absl::Status DoesNotFit(std::string detail, PlannedItem* planned) {
    planned->item.outcome = LoadedItem::Outcome::kMisfit;
    planned->item.detail = std::move(detail);
    return absl::OkStatus();
  }

  const StepReader& step_;
  const ChangeReader* const changes_;
  const ManagerOptions& options_;
  const ReadOptions& read_;
  const ModelState::Shard shard_;
  Coordinator* const ranks_;
  const absl::string_view cast_remedy_;
  const LoadRule& rule_;
  const ValueTypes value_types_;
  std::vector<PlannedItem> items_;
};

}  // namespace

absl::StatusOr<std::vector<PlannedItem>> PlanItems(const LoadInputs& inputs,
                                                   const ReadOptions& read,
                                                   const LoadRule& rule) {
  const ModelState& model = inputs.model;
  const absl::Span<const TableSharding> shardings = inputs.shardings;
  CKPTDB_RETURN_IF_ERROR(CheckTables(model, shardings));
  ItemPlanner planner(inputs, read, rule);
  // Objects first: they may refuse the step of another trainer.
  for (const auto& extra : model.extras()) {
    CKPTDB_RETURN_IF_ERROR(planner.Add(extra));
  }
  std::map<absl::string_view, std::vector<const RegisteredTensor*>> shards;
  for (const auto& tensor : model.tensors()) {
    shards[tensor.name].push_back(&tensor);
  }
  for (const auto& tensor : model.tensors()) {
    const auto& of_tensor = shards[tensor.name];
    if (of_tensor.front() != &tensor) continue;
    CKPTDB_RETURN_IF_ERROR(planner.Add(of_tensor));
  }
  for (size_t t = 0; t < shardings.size(); ++t) {
    CKPTDB_RETURN_IF_ERROR(planner.Add(model.tables()[t], shardings[t]));
  }
  for (const auto& io : model.io_states()) {
    CKPTDB_RETURN_IF_ERROR(planner.Add(io));
  }
  return planner.TakeItems();
}

}  // namespace ckptdb::internal
