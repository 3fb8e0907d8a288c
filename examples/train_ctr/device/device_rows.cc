// SPDX-License-Identifier: Apache-2.0
// Embedding tables in the memory of a GPU: for each a ckptdb::DeviceTable, and
// an index from ids to its rows in host memory, as the batches come from there.
#include <ckptdb/cuda/device_table.h>
#include <ckptdb/schema/status.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "train_ctr/device/cuda_machine.h"
#include "train_ctr/model.h"

namespace train_ctr {
namespace {

// An array on the device, and one in host memory that is copied to or from it.
template <typename T>
struct Staged {
  T* device = nullptr;
  T* host = nullptr;
};

// One table. The host waits for the stream before it calls Touch or LookUp
// again.
class DeviceEmbedding {
 public:
  // It is table `number` of the layout.
  DeviceEmbedding(const EmbeddingTableOptions& options, uint64_t rows,
                  const FieldLayout* layout, size_t number,
                  CudaMachine* machine)
      : options_(options),
        seed_(TableSeed(options)),
        layout_(layout),
        number_(number),
        machine_(machine) {
    arrays_.rows = rows;
    arrays_.dim = options.dim;
  }

  // Allocates memory for batches of up to so many examples.
  absl::Status Open(uint64_t max_examples);

  const std::string& name() const { return options_.name; }
  size_t size() const { return index_.size(); }
  ckptdb::DeviceTable* state() const { return state_.get(); }

  // The ids are those of all tables.
  absl::Status Touch(const std::vector<int64_t>& ids, int64_t step,
                     float* inputs);
  absl::Status LookUp(const std::vector<int64_t>& ids, float* inputs);
  absl::Status ApplyGradients(const float* gradients, float learning_rate);
  absl::Status EraseUnseenSince(int64_t step);
  // Rebuilds the index after a restore.
  absl::Status Reindex();
  // Returns a copy in host memory.
  absl::StatusOr<EmbeddingTable> Read() const;

 private:
  template <typename T>
  absl::Status Allocate(size_t count, Staged<T>* staged) {
    CKPTDB_ASSIGN_OR_RETURN(staged->device, machine_->New<T>(count));
    CKPTDB_ASSIGN_OR_RETURN(staged->host, machine_->NewPinned<T>(count));
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status Upload(const Staged<T>& staged, size_t count) {
    return machine_->QueueCopy(staged.host, count * sizeof(T), staged.device,
                               cudaMemcpyHostToDevice);
  }
  template <typename T>
  absl::StatusOr<std::vector<T>> ReadArray(const T* from, size_t count) const {
    std::vector<T> read(count);
    CKPTDB_RETURN_IF_ERROR(machine_->Copy(from, count * sizeof(T), read.data(),
                                          cudaMemcpyDeviceToHost));
    return read;
  }
  // Calls `visit` with each place of a batch that names an id of this table, in
  // ascending order.
  template <typename Visit>
  void ForEachPlace(const std::vector<int64_t>& ids, const Visit& visit) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (layout_->table_of_field[i % layout_->fields()] != number_) continue;
      visit(static_cast<uint32_t>(i), ids[i]);
    }
  }
  // Returns the row of the id, which it gets if it has none; an error if all
  // rows are taken.
  absl::StatusOr<int32_t> Insert(int64_t id, bool* is_new);
  absl::Status FindRows(const std::vector<int64_t>& ids);
  absl::Status Gather(size_t places, float* inputs);

  const EmbeddingTableOptions options_;
  const uint64_t seed_;
  const FieldLayout* const layout_;
  const size_t number_;
  CudaMachine* const machine_;
  TableArrays arrays_;
  Staged<uint8_t> erased_;  // by row

  absl::flat_hash_map<int64_t, int32_t> index_;
  std::vector<int64_t> ids_;   // by row, of rows that were ever given
  std::vector<int32_t> free_;  // of these; the last one is given first

  // Set by the last Touch or LookUp.
  Staged<BatchRow> batch_rows_;
  Staged<BatchPlace> batch_places_;
  int32_t* listed_rows_ = nullptr;
  size_t row_count_ = 0;
  size_t place_count_ = 0;

  std::unique_ptr<ckptdb::DeviceTable> state_;
};

absl::Status DeviceEmbedding::Open(uint64_t max_examples) {
  const uint64_t max_places =
      max_examples *
      static_cast<uint64_t>(std::count(layout_->table_of_field.begin(),
                                       layout_->table_of_field.end(), number_));
  const uint64_t rows = arrays_.rows;
  const uint64_t elements = rows * arrays_.dim;
  CKPTDB_ASSIGN_OR_RETURN(arrays_.ids, machine_->New<int64_t>(rows));
  CKPTDB_ASSIGN_OR_RETURN(arrays_.embedding, machine_->New<float>(elements));
  CKPTDB_ASSIGN_OR_RETURN(arrays_.adagrad_sum, machine_->New<float>(elements));
  CKPTDB_ASSIGN_OR_RETURN(arrays_.freq, machine_->New<int64_t>(rows));
  CKPTDB_ASSIGN_OR_RETURN(arrays_.last_step, machine_->New<int64_t>(rows));
  CKPTDB_RETURN_IF_ERROR(Allocate(rows, &erased_));
  CKPTDB_RETURN_IF_ERROR(Allocate(max_places, &batch_rows_));
  CKPTDB_RETURN_IF_ERROR(Allocate(max_places, &batch_places_));
  CKPTDB_ASSIGN_OR_RETURN(listed_rows_, machine_->New<int32_t>(max_places));
  const std::vector<ckptdb::Slot> slots = EmbeddingSlots(arrays_.dim);
  ckptdb::DeviceTable::Options options;
  options.stream = machine_->stream();
  options.ids = arrays_.ids;
  options.free_id = kFreeId;
  CKPTDB_ASSIGN_OR_RETURN(
      state_, ckptdb::DeviceTable::Make(machine_->device(), rows,
                                        {{slots[0], arrays_.embedding},
                                         {slots[1], arrays_.adagrad_sum},
                                         {slots[2], arrays_.freq},
                                         {slots[3], arrays_.last_step}},
                                        std::move(options)));
  return machine_->Queue(ClearIds{arrays_}, "ClearIds");
}

absl::Status DeviceEmbedding::Touch(const std::vector<int64_t>& ids,
                                    int64_t step, float* inputs) {
  CKPTDB_RETURN_IF_ERROR(FindRows(ids));
  CKPTDB_RETURN_IF_ERROR(Upload(batch_rows_, row_count_));
  CKPTDB_RETURN_IF_ERROR(
      machine_->Queue(TouchRows{arrays_, batch_rows_.device, row_count_, step,
                                seed_, listed_rows_},
                      "TouchRows"));
  return Gather(place_count_, inputs);
}

absl::StatusOr<int32_t> DeviceEmbedding::Insert(int64_t id, bool* is_new) {
  if (id == kFreeId) {
    return absl::InvalidArgumentError(
        absl::StrCat("table \"", name(), "\": id ", id,
                     " stands for rows that hold nothing; train without "
                     "--device"));
  }
  const auto found = index_.find(id);
  *is_new = found == index_.end();
  if (!*is_new) return found->second;
  if (free_.empty() && ids_.size() == arrays_.rows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("table \"", name(), "\" has ", arrays_.rows,
                     " rows in GPU memory, and all are taken; give it more by "
                     "--device-rows, or erase rows by --erase-after"));
  }
  if (free_.empty()) {
    free_.push_back(static_cast<int32_t>(ids_.size()));
    ids_.push_back(id);
  }
  const int32_t row = free_.back();
  free_.pop_back();
  index_.emplace(id, row);
  ids_[static_cast<size_t>(row)] = id;
  return row;
}

// Lists the rows of the batch, and its places, those of the same row one after
// the other.
absl::Status DeviceEmbedding::FindRows(const std::vector<int64_t>& ids) {
  struct Named {
    int32_t row;
    uint32_t place;
    bool is_new;
  };
  std::vector<Named> named;
  absl::Status status;
  ForEachPlace(ids, [&](uint32_t place, int64_t id) {
    bool is_new = false;
    const auto row = Insert(id, &is_new);
    status.Update(row.status());
    if (row.ok()) named.push_back({*row, place, is_new});
  });
  CKPTDB_RETURN_IF_ERROR(status);
  std::stable_sort(
      named.begin(), named.end(),
      [](const Named& a, const Named& b) { return a.row < b.row; });
  row_count_ = 0;
  place_count_ = named.size();
  for (uint32_t i = 0; i < named.size(); ++i) {
    const auto [row, place, is_new] = named[i];
    if (i == 0 || row != named[i - 1].row) {
      batch_rows_.host[row_count_++] = {ids[place], row, is_new ? 1 : 0, i, 0};
    }
    ++batch_rows_.host[row_count_ - 1].places;
    batch_places_.host[i] = {place, row};
  }
  return absl::OkStatus();
}

absl::Status DeviceEmbedding::LookUp(const std::vector<int64_t>& ids,
                                     float* inputs) {
  size_t places = 0;
  ForEachPlace(ids, [&](uint32_t place, int64_t id) {
    const auto found = index_.find(id);
    batch_places_.host[places++] = {
        place, found == index_.end() ? BatchPlace::kNoRow : found->second};
  });
  return Gather(places, inputs);
}

absl::Status DeviceEmbedding::Gather(size_t places, float* inputs) {
  CKPTDB_RETURN_IF_ERROR(Upload(batch_places_, places));
  return machine_->Queue(
      GatherEmbeddings{arrays_, batch_places_.device, places, inputs},
      "GatherEmbeddings");
}

absl::Status DeviceEmbedding::ApplyGradients(const float* gradients,
                                             float learning_rate) {
  CKPTDB_RETURN_IF_ERROR(machine_->Queue(
      AdagradRows{arrays_, batch_rows_.device, row_count_, batch_places_.device,
                  gradients, learning_rate},
      "AdagradRows"));
  return state_->MarkUpserted(listed_rows_, row_count_);
}

absl::Status DeviceEmbedding::EraseUnseenSince(int64_t step) {
  CKPTDB_RETURN_IF_ERROR(
      machine_->Queue(EraseRows{arrays_, step, erased_.device}, "EraseRows"));
  CKPTDB_RETURN_IF_ERROR(machine_->QueueCopy(
      erased_.device, arrays_.rows, erased_.host, cudaMemcpyDeviceToHost));
  CKPTDB_RETURN_IF_ERROR(machine_->Wait());
  std::vector<int64_t> ids;
  for (size_t row = 0; row < ids_.size(); ++row) {
    if (erased_.host[row] == 0) continue;
    ids.push_back(ids_[row]);
    index_.erase(ids_[row]);
    free_.push_back(static_cast<int32_t>(row));
  }
  return state_->MarkErased(ids);
}

absl::Status DeviceEmbedding::Reindex() {
  CKPTDB_ASSIGN_OR_RETURN(ids_, ReadArray(arrays_.ids, arrays_.rows));
  index_.clear();
  free_.clear();
  for (size_t row = ids_.size(); row-- > 0;) {
    if (ids_[row] == kFreeId) {
      free_.push_back(static_cast<int32_t>(row));
    } else {
      index_.emplace(ids_[row], static_cast<int32_t>(row));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EmbeddingTable> DeviceEmbedding::Read() const {
  const size_t rows = arrays_.rows;
  const size_t dim = arrays_.dim;
  CKPTDB_ASSIGN_OR_RETURN(const auto ids, ReadArray(arrays_.ids, rows));
  CKPTDB_ASSIGN_OR_RETURN(const auto embedding,
                          ReadArray(arrays_.embedding, rows * dim));
  CKPTDB_ASSIGN_OR_RETURN(const auto adagrad_sum,
                          ReadArray(arrays_.adagrad_sum, rows * dim));
  CKPTDB_ASSIGN_OR_RETURN(const auto freq, ReadArray(arrays_.freq, rows));
  CKPTDB_ASSIGN_OR_RETURN(const auto last_step,
                          ReadArray(arrays_.last_step, rows));
  EmbeddingTable table(options_);
  for (size_t row = 0; row < rows; ++row) {
    if (ids[row] == kFreeId) continue;
    const auto to = table.mutable_row(table.Insert(ids[row]));
    std::copy_n(&embedding[row * dim], dim, to.embedding);
    std::copy_n(&adagrad_sum[row * dim], dim, to.adagrad_sum);
    *to.freq = freq[row];
    *to.last_step = last_step[row];
  }
  return table;
}

class DeviceRows final : public Rows {
 public:
  static absl::StatusOr<std::unique_ptr<Rows>> Make(
      const ModelOptions& options,
      const std::vector<EmbeddingTableOptions>& tables,
      const FieldLayout* layout, CudaMachine* machine) {
    auto rows = std::make_unique<DeviceRows>();
    for (size_t t = 0; t < tables.size(); ++t) {
      rows->tables_.push_back(std::make_unique<DeviceEmbedding>(
          tables[t], options.device_rows, layout, t, machine));
      CKPTDB_RETURN_IF_ERROR(rows->tables_.back()->Open(options.batch));
    }
    return rows;
  }

  absl::Status Touch(const std::vector<int64_t>& ids, int64_t step,
                     float* inputs) override {
    return ForEach([&](DeviceEmbedding* table) {
      return table->Touch(ids, step, inputs);
    });
  }
  absl::Status LookUp(const std::vector<int64_t>& ids, float* inputs) override {
    return ForEach(
        [&](DeviceEmbedding* table) { return table->LookUp(ids, inputs); });
  }
  absl::Status ApplyGradients(const float* gradients,
                              float learning_rate) override {
    return ForEach([&](DeviceEmbedding* table) {
      return table->ApplyGradients(gradients, learning_rate);
    });
  }
  absl::Status EraseUnseenSince(int64_t step) override {
    return ForEach(
        [&](DeviceEmbedding* table) { return table->EraseUnseenSince(step); });
  }
  size_t size() const override {
    size_t rows = 0;
    for (const auto& table : tables_) rows += table->size();
    return rows;
  }
  absl::StatusOr<std::vector<const EmbeddingTable*>> View() override {
    read_back_.clear();
    CKPTDB_RETURN_IF_ERROR(ForEach([&](DeviceEmbedding* table) -> absl::Status {
      CKPTDB_ASSIGN_OR_RETURN(EmbeddingTable read, table->Read());
      read_back_.push_back(std::move(read));
      return absl::OkStatus();
    }));
    std::vector<const EmbeddingTable*> view;
    for (const EmbeddingTable& table : read_back_) view.push_back(&table);
    return view;
  }
  absl::Status Register(ckptdb::ModelState* state) override {
    return ForEach([&](DeviceEmbedding* table) {
      return state->AddTable(table->name(), table->state());
    });
  }
  absl::Status OnRestored() override {
    return ForEach([](DeviceEmbedding* table) { return table->Reindex(); });
  }

 private:
  template <typename Call>
  absl::Status ForEach(const Call& call) const {
    for (const auto& table : tables_) CKPTDB_RETURN_IF_ERROR(call(table.get()));
    return absl::OkStatus();
  }

  std::vector<std::unique_ptr<DeviceEmbedding>> tables_;
  std::vector<EmbeddingTable> read_back_;  // of the last View
};

absl::StatusOr<ModelMemory> OpenMemory(
    const ModelOptions& options,
    const std::vector<EmbeddingTableOptions>& tables,
    const FieldLayout* layout) {
  CKPTDB_ASSIGN_OR_RETURN(auto machine,
                          CudaMachine::Open(options.cuda_device.value_or(0)));
  CKPTDB_ASSIGN_OR_RETURN(
      auto rows, DeviceRows::Make(options, tables, layout, machine.get()));
  return ModelMemory{std::move(machine), std::move(rows)};
}

}  // namespace

absl::StatusOr<ModelMemory> NewDeviceMemory(
    const ModelOptions& options,
    const std::vector<EmbeddingTableOptions>& tables,
    const FieldLayout* layout) {
  absl::StatusOr<ModelMemory> memory = OpenMemory(options, tables, layout);
  if (memory.ok()) return memory;
  return absl::Status(
      memory.status().code(),
      absl::StrCat("--device cuda:", options.cuda_device.value_or(0), ": ",
                   memory.status().message()));
}

}  // namespace train_ctr
