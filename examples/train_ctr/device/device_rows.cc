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

constexpr uint32_t kNoBatchRow = UINT32_MAX;

// An array on the device, and one in host memory that is copied to or from it.
template <typename T>
struct Staged {
  T* device = nullptr;
  T* host = nullptr;
};

// The places of a batch that name ids of one table, in ascending order.
struct TablePlaces {
  std::vector<int64_t> ids;
  std::vector<uint32_t> places;
};

// One table. The host waits for the stream before it calls Touch or LookUp
// again.
class DeviceEmbedding {
 public:
  DeviceEmbedding(const EmbeddingTableOptions& options, uint64_t rows,
                  CudaMachine* machine)
      : options_(options), seed_(TableSeed(options)), machine_(machine) {
    arrays_.rows = rows;
    arrays_.dim = options.dim;
  }

  absl::Status Open(uint64_t max_places);

  const std::string& name() const { return options_.name; }
  size_t size() const { return index_.size(); }
  ckptdb::DeviceTable* state() const { return state_.get(); }

  absl::Status Touch(const TablePlaces& batch, int64_t step, float* inputs);
  absl::Status LookUp(const TablePlaces& batch, float* inputs);
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
  // Returns the row of the id, which it gets if it has none; nothing if all
  // rows are taken.
  std::optional<int32_t> Insert(int64_t id, bool* is_new);
  absl::Status FindRows(const TablePlaces& batch);
  void ListPlaces(const TablePlaces& batch);
  absl::Status Gather(size_t places, float* inputs);

  const EmbeddingTableOptions options_;
  const uint64_t seed_;
  CudaMachine* const machine_;
  TableArrays arrays_;
  Staged<uint8_t> erased_;  // by row

  absl::flat_hash_map<int64_t, int32_t> index_;
  std::vector<int64_t> ids_;   // by row, of rows that were ever given
  std::vector<int32_t> free_;  // of these; the last one is given first

  // These are of the last Touch or LookUp.
  Staged<BatchRow> batch_rows_;
  Staged<BatchPlace> batch_places_;
  int32_t* listed_rows_ = nullptr;
  size_t row_count_ = 0;
  std::vector<uint32_t> batch_row_of_place_;
  // The batch row of each table row; kNoBatchRow for those not in the batch.
  std::vector<uint32_t> batch_row_of_row_;

  std::unique_ptr<ckptdb::DeviceTable> state_;
};

absl::Status DeviceEmbedding::Open(uint64_t max_places) {
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

absl::Status DeviceEmbedding::Touch(const TablePlaces& batch, int64_t step,
                                    float* inputs) {
  CKPTDB_RETURN_IF_ERROR(FindRows(batch));
  ListPlaces(batch);
  CKPTDB_RETURN_IF_ERROR(Upload(batch_rows_, row_count_));
  CKPTDB_RETURN_IF_ERROR(
      machine_->Queue(TouchRows{arrays_, batch_rows_.device, row_count_, step,
                                seed_, listed_rows_},
                      "TouchRows"));
  return Gather(batch.ids.size(), inputs);
}

std::optional<int32_t> DeviceEmbedding::Insert(int64_t id, bool* is_new) {
  const auto found = index_.find(id);
  *is_new = found == index_.end();
  if (!*is_new) return found->second;
  if (free_.empty() && ids_.size() == arrays_.rows) return std::nullopt;
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

// Lists the rows of the batch in the order in which it first names them.
absl::Status DeviceEmbedding::FindRows(const TablePlaces& batch) {
  row_count_ = 0;
  batch_row_of_place_.resize(batch.ids.size());
  for (size_t k = 0; k < batch.ids.size(); ++k) {
    const int64_t id = batch.ids[k];
    if (id == kFreeId) {
      return absl::InvalidArgumentError(
          absl::StrCat("table \"", name(), "\": id ", id,
                       " stands for rows that hold nothing; train without "
                       "--device"));
    }
    bool is_new = false;
    const std::optional<int32_t> at = Insert(id, &is_new);
    if (!at) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "table \"", name(), "\" has ", arrays_.rows,
          " rows in GPU memory, and all are taken; give it more by "
          "--device-rows, or erase rows by --erase-after"));
    }
    const auto number = static_cast<size_t>(*at);
    batch_row_of_row_.resize(std::max(batch_row_of_row_.size(), number + 1),
                             kNoBatchRow);
    uint32_t& row = batch_row_of_row_[number];
    if (row == kNoBatchRow) {
      row = static_cast<uint32_t>(row_count_++);
      batch_rows_.host[row] = {id, *at, is_new ? 1 : 0, 0, 0};
    }
    ++batch_rows_.host[row].places;
    batch_row_of_place_[k] = row;
  }
  return absl::OkStatus();
}

// Lists the places of the batch, those of the same row one after the other.
void DeviceEmbedding::ListPlaces(const TablePlaces& batch) {
  BatchRow* const rows = batch_rows_.host;
  uint32_t first = 0;
  for (size_t r = 0; r < row_count_; ++r) {
    batch_row_of_row_[static_cast<size_t>(rows[r].row)] = kNoBatchRow;
    rows[r].first = first;
    first += std::exchange(rows[r].places, 0);
  }
  for (size_t k = 0; k < batch.places.size(); ++k) {
    BatchRow& row = rows[batch_row_of_place_[k]];
    batch_places_.host[row.first + row.places++] = {batch.places[k], row.row};
  }
}

absl::Status DeviceEmbedding::LookUp(const TablePlaces& batch, float* inputs) {
  for (size_t k = 0; k < batch.ids.size(); ++k) {
    const auto found = index_.find(batch.ids[k]);
    batch_places_.host[k] = {batch.places[k], found == index_.end()
                                                  ? BatchPlace::kNoRow
                                                  : found->second};
  }
  return Gather(batch.ids.size(), inputs);
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
  DeviceRows(CudaMachine* machine, const FieldLayout* layout)
      : machine_(machine), layout_(layout), places_(layout->tables.size()) {}

  absl::Status Open(const ModelOptions& options,
                    const std::vector<EmbeddingTableOptions>& tables) {
    for (size_t t = 0; t < tables.size(); ++t) {
      const auto fields = std::count(layout_->table_of_field.begin(),
                                     layout_->table_of_field.end(), t);
      tables_.push_back(std::make_unique<DeviceEmbedding>(
          tables[t], options.device_rows, machine_));
      CKPTDB_RETURN_IF_ERROR(
          tables_.back()->Open(options.batch * static_cast<size_t>(fields)));
    }
    return absl::OkStatus();
  }

  absl::Status Touch(const std::vector<int64_t>& ids, int64_t step,
                     float* inputs) override {
    Split(ids);
    return ForEach([&](DeviceEmbedding* table, size_t t) {
      return table->Touch(places_[t], step, inputs);
    });
  }
  absl::Status LookUp(const std::vector<int64_t>& ids, float* inputs) override {
    Split(ids);
    return ForEach([&](DeviceEmbedding* table, size_t t) {
      return table->LookUp(places_[t], inputs);
    });
  }
  absl::Status ApplyGradients(const float* gradients,
                              float learning_rate) override {
    return ForEach([&](DeviceEmbedding* table, size_t) {
      return table->ApplyGradients(gradients, learning_rate);
    });
  }
  absl::Status EraseUnseenSince(int64_t step) override {
    return ForEach([&](DeviceEmbedding* table, size_t) {
      return table->EraseUnseenSince(step);
    });
  }
  size_t size() const override {
    size_t rows = 0;
    for (const auto& table : tables_) rows += table->size();
    return rows;
  }
  absl::StatusOr<std::vector<const EmbeddingTable*>> View() override {
    read_back_.clear();
    CKPTDB_RETURN_IF_ERROR(
        ForEach([&](DeviceEmbedding* table, size_t) -> absl::Status {
          CKPTDB_ASSIGN_OR_RETURN(EmbeddingTable read, table->Read());
          read_back_.push_back(std::move(read));
          return absl::OkStatus();
        }));
    std::vector<const EmbeddingTable*> view;
    for (const EmbeddingTable& table : read_back_) view.push_back(&table);
    return view;
  }
  absl::Status Register(ckptdb::ModelState* state) override {
    return ForEach([&](DeviceEmbedding* table, size_t) {
      return state->AddTable(table->name(), table->state());
    });
  }
  absl::Status OnRestored() override {
    return ForEach(
        [](DeviceEmbedding* table, size_t) { return table->Reindex(); });
  }

 private:
  // Splits a batch into the places of each table.
  void Split(const std::vector<int64_t>& ids) {
    for (TablePlaces& of_table : places_) of_table = {};
    for (size_t i = 0; i < ids.size(); ++i) {
      TablePlaces& of_table =
          places_[layout_->table_of_field[i % layout_->fields()]];
      of_table.ids.push_back(ids[i]);
      of_table.places.push_back(static_cast<uint32_t>(i));
    }
  }
  template <typename Call>
  absl::Status ForEach(const Call& call) const {
    for (size_t t = 0; t < tables_.size(); ++t) {
      CKPTDB_RETURN_IF_ERROR(call(tables_[t].get(), t));
    }
    return absl::OkStatus();
  }

  CudaMachine* const machine_;
  const FieldLayout* const layout_;
  std::vector<std::unique_ptr<DeviceEmbedding>> tables_;
  std::vector<TablePlaces> places_;        // by table
  std::vector<EmbeddingTable> read_back_;  // of the last View
};

absl::StatusOr<ModelMemory> OpenMemory(
    const ModelOptions& options,
    const std::vector<EmbeddingTableOptions>& tables,
    const FieldLayout* layout) {
  CKPTDB_ASSIGN_OR_RETURN(auto machine,
                          CudaMachine::Open(options.cuda_device.value_or(0)));
  auto rows = std::make_unique<DeviceRows>(machine.get(), layout);
  CKPTDB_RETURN_IF_ERROR(rows->Open(options, tables));
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
