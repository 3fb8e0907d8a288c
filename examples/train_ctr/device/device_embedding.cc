// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/device/device_embedding.h"

#include <ckptdb/schema/status.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "train_ctr/device/kernels.h"

namespace train_ctr {
namespace {

constexpr uint32_t kNoBatchRow = UINT32_MAX;

}  // namespace

DeviceEmbedding::DeviceEmbedding(const Options& options)
    : options_(options),
      seed_(TableSeed(options.table)),
      index_(options.rows) {}

absl::StatusOr<std::unique_ptr<DeviceEmbedding>> DeviceEmbedding::Make(
    const Options& options) {
  std::unique_ptr<DeviceEmbedding> table(new DeviceEmbedding(options));
  CKPTDB_RETURN_IF_ERROR(table->Allocate());
  CKPTDB_RETURN_IF_ERROR(table->OpenState());
  // Nothing that fails comes after it, so its memory stays.
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(Launch(ClearIds{table->arrays_}, options.stream), "ClearIds"));
  return table;
}

absl::Status DeviceEmbedding::Allocate() {
  const uint64_t rows = options_.rows;
  const uint64_t elements = rows * options_.table.dim;
  const uint64_t places = options_.max_places;
  CKPTDB_ASSIGN_OR_RETURN(ids_, DeviceArray<int64_t>::Make(rows));
  CKPTDB_ASSIGN_OR_RETURN(embedding_, DeviceArray<float>::Make(elements));
  CKPTDB_ASSIGN_OR_RETURN(adagrad_sum_, DeviceArray<float>::Make(elements));
  CKPTDB_ASSIGN_OR_RETURN(freq_, DeviceArray<int64_t>::Make(rows));
  CKPTDB_ASSIGN_OR_RETURN(last_step_, DeviceArray<int64_t>::Make(rows));
  CKPTDB_ASSIGN_OR_RETURN(erased_, StagedArray<uint8_t>::Make(rows));
  CKPTDB_ASSIGN_OR_RETURN(batch_rows_, StagedArray<BatchRow>::Make(places));
  CKPTDB_ASSIGN_OR_RETURN(batch_places_, StagedArray<BatchPlace>::Make(places));
  CKPTDB_ASSIGN_OR_RETURN(listed_rows_, DeviceArray<int32_t>::Make(places));
  arrays_.rows = rows;
  arrays_.dim = options_.table.dim;
  arrays_.ids = ids_.get();
  arrays_.embedding = embedding_.get();
  arrays_.adagrad_sum = adagrad_sum_.get();
  arrays_.freq = freq_.get();
  arrays_.last_step = last_step_.get();
  return absl::OkStatus();
}

absl::Status DeviceEmbedding::OpenState() {
  void* const arrays[] = {arrays_.embedding, arrays_.adagrad_sum, arrays_.freq,
                          arrays_.last_step};
  const std::vector<ckptdb::Slot> slots = EmbeddingSlots(arrays_.dim);
  std::vector<ckptdb::DeviceTable::Array> columns;
  for (size_t s = 0; s < slots.size(); ++s) {
    columns.push_back({slots[s], arrays[s]});
  }
  ckptdb::DeviceTable::Options options;
  options.stream = options_.stream;
  options.ids = arrays_.ids;
  options.free_id = kFreeId;
  CKPTDB_ASSIGN_OR_RETURN(
      state_, ckptdb::DeviceTable::Make(options_.device, options_.rows, columns,
                                        std::move(options)));
  return absl::OkStatus();
}

absl::Status DeviceEmbedding::Touch(const TablePlaces& batch, int64_t step,
                                    float* inputs) {
  CKPTDB_RETURN_IF_ERROR(FindRows(batch));
  ListPlaces(batch);
  CKPTDB_RETURN_IF_ERROR(batch_rows_.Upload(row_count_, options_.stream));
  TouchRows touch;
  touch.table = arrays_;
  touch.rows = batch_rows_.device();
  touch.row_count = row_count_;
  touch.step = step;
  touch.table_seed = seed_;
  touch.init_range = options_.table.init_range;
  touch.listed = listed_rows_.get();
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(Launch(touch, options_.stream), "TouchRows"));
  return Gather(batch.ids.size(), inputs);
}

// Lists the rows of the batch in the order in which it first names them.
absl::Status DeviceEmbedding::FindRows(const TablePlaces& batch) {
  row_count_ = 0;
  batch_row_of_place_.resize(batch.ids.size());
  BatchRow* const rows = batch_rows_.host();
  for (size_t k = 0; k < batch.ids.size(); ++k) {
    const int64_t id = batch.ids[k];
    if (id == kFreeId) {
      return absl::InvalidArgumentError(
          absl::StrCat("table \"", name(), "\": id ", id,
                       " stands for rows that hold nothing; train without "
                       "--device"));
    }
    const std::optional<RowIndex::Inserted> at = index_.Insert(id);
    if (!at) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "table \"", name(), "\" has ", options_.rows,
          " rows in GPU memory, and all are taken; give it more by "
          "--device-rows, or erase rows by --erase-after"));
    }
    const auto number = static_cast<size_t>(at->row);
    batch_row_of_row_.resize(std::max(batch_row_of_row_.size(), number + 1),
                             kNoBatchRow);
    uint32_t& row = batch_row_of_row_[number];
    if (row == kNoBatchRow) {
      row = static_cast<uint32_t>(row_count_++);
      rows[row] = {id, at->row, at->is_new ? 1 : 0, 0, 0};
    }
    ++rows[row].places;
    batch_row_of_place_[k] = row;
  }
  return absl::OkStatus();
}

// Lists the places of the batch, those of the same row one after the other.
void DeviceEmbedding::ListPlaces(const TablePlaces& batch) {
  BatchRow* const rows = batch_rows_.host();
  uint32_t first = 0;
  for (size_t r = 0; r < row_count_; ++r) {
    batch_row_of_row_[static_cast<size_t>(rows[r].row)] = kNoBatchRow;
    rows[r].first = first;
    first += std::exchange(rows[r].places, 0);
  }
  for (size_t k = 0; k < batch.places.size(); ++k) {
    BatchRow& row = rows[batch_row_of_place_[k]];
    batch_places_.host()[row.first + row.places++] = {batch.places[k], row.row};
  }
}

absl::Status DeviceEmbedding::LookUp(const TablePlaces& batch, float* inputs) {
  for (size_t k = 0; k < batch.ids.size(); ++k) {
    batch_places_.host()[k] = {
        batch.places[k],
        index_.Find(batch.ids[k]).value_or(BatchPlace::kNoRow)};
  }
  return Gather(batch.ids.size(), inputs);
}

absl::Status DeviceEmbedding::Gather(size_t places, float* inputs) {
  CKPTDB_RETURN_IF_ERROR(batch_places_.Upload(places, options_.stream));
  const GatherEmbeddings gather = {arrays_, batch_places_.device(), places,
                                   inputs};
  return CudaStatus(Launch(gather, options_.stream), "GatherEmbeddings");
}

absl::Status DeviceEmbedding::ApplyGradients(const float* input_gradient,
                                             float learning_rate) {
  AdagradRows adagrad;
  adagrad.table = arrays_;
  adagrad.rows = batch_rows_.device();
  adagrad.row_count = row_count_;
  adagrad.places = batch_places_.device();
  adagrad.input_gradient = input_gradient;
  adagrad.learning_rate = learning_rate;
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(Launch(adagrad, options_.stream), "AdagradRows"));
  return state_->MarkUpserted(listed_rows_.get(), row_count_);
}

absl::Status DeviceEmbedding::EraseUnseenSince(int64_t step) {
  const EraseRows erase = {arrays_, step, erased_.device()};
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(Launch(erase, options_.stream), "EraseRows"));
  CKPTDB_RETURN_IF_ERROR(erased_.Download(options_.rows, options_.stream));
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(options_.stream),
                                    "cudaStreamSynchronize"));
  std::vector<int64_t> ids;
  for (uint64_t row = 0; row < options_.rows; ++row) {
    if (erased_.host()[row] == 0) continue;
    ids.push_back(index_.Erase(static_cast<int32_t>(row)));
  }
  return state_->MarkErased(ids);
}

absl::Status DeviceEmbedding::Reindex(const Transfer& transfer) {
  std::vector<int64_t> ids(ids_.size());
  CKPTDB_RETURN_IF_ERROR(transfer.Read(ids_.get(), ids_.bytes(), ids.data()));
  index_.Rebuild(ids, kFreeId);
  return absl::OkStatus();
}

absl::StatusOr<EmbeddingTable> DeviceEmbedding::Read(
    const Transfer& transfer) const {
  const auto read = [&transfer]<typename T>(const DeviceArray<T>& from,
                                            std::vector<T>* to) {
    to->resize(from.size());
    return transfer.Read(from.get(), from.bytes(), to->data());
  };
  std::vector<int64_t> ids;
  std::vector<float> embedding;
  std::vector<float> adagrad_sum;
  std::vector<int64_t> freq;
  std::vector<int64_t> last_step;
  CKPTDB_RETURN_IF_ERROR(read(ids_, &ids));
  CKPTDB_RETURN_IF_ERROR(read(embedding_, &embedding));
  CKPTDB_RETURN_IF_ERROR(read(adagrad_sum_, &adagrad_sum));
  CKPTDB_RETURN_IF_ERROR(read(freq_, &freq));
  CKPTDB_RETURN_IF_ERROR(read(last_step_, &last_step));
  EmbeddingTable table(options_.table);
  const size_t dim = table.dim();
  for (size_t row = 0; row < ids.size(); ++row) {
    if (ids[row] == kFreeId) continue;
    const EmbeddingTable::MutableRow to =
        table.mutable_row(table.Insert(ids[row]));
    std::copy_n(&embedding[row * dim], dim, to.embedding);
    std::copy_n(&adagrad_sum[row * dim], dim, to.adagrad_sum);
    *to.freq = freq[row];
    *to.last_step = last_step[row];
  }
  return table;
}

}  // namespace train_ctr
