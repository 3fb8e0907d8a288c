// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/device/device_model.h"

#include <ckptdb/schema/status.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "train_ctr/device/new_device_model.h"

namespace train_ctr {
namespace {

// Returns Unavailable or InvalidArgument if the machine does not have it.
absl::Status CheckDevice(int device) {
  int count = 0;  // not set without a driver
  const absl::Status counted =
      CudaStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (!counted.ok() || count == 0) {
    return absl::UnavailableError(absl::StrCat(
        "this machine has no CUDA device (",
        counted.ok() ? "the driver finds none" : counted.message(),
        "); install a GPU and its driver, or train without --device"));
  }
  if (device >= 0 && device < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this machine has ", count,
                   " CUDA devices, numbered from 0 to ", count - 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> NewDeviceModel(
    const TrainerOptions& options, const FieldLayout& layout) {
  absl::StatusOr<std::unique_ptr<Model>> model =
      DeviceModel::Make(options, layout);
  if (model.ok()) return model;
  return absl::Status(
      model.status().code(),
      absl::StrCat("--device cuda:", options.cuda_device.value_or(0), ": ",
                   model.status().message()));
}

absl::StatusOr<std::unique_ptr<DeviceModel>> DeviceModel::Make(
    const TrainerOptions& options, const FieldLayout& layout) {
  std::unique_ptr<DeviceModel> model(new DeviceModel(options, layout));
  CKPTDB_RETURN_IF_ERROR(model->Open());
  CKPTDB_RETURN_IF_ERROR(model->MakeTables());
  CKPTDB_RETURN_IF_ERROR(model->MakePerceptron());
  return model;
}

absl::Status DeviceModel::Open() {
  const int device = options_.cuda_device.value_or(0);
  CKPTDB_RETURN_IF_ERROR(CheckDevice(device));
  CKPTDB_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device), "cudaSetDevice"));
  ckptdb::CudaDevice::Options open;
  open.device = device;
  open.required = true;
  CKPTDB_ASSIGN_OR_RETURN(device_, ckptdb::CudaDevice::Open(open));
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreateWithFlags"));
  CKPTDB_ASSIGN_OR_RETURN(transfer_, Transfer::Make(stream_));
  return absl::OkStatus();
}

absl::Status DeviceModel::MakeTables() {
  const std::vector<EmbeddingTableOptions> tables = TablesOf(options_, layout_);
  for (size_t t = 0; t < tables.size(); ++t) {
    DeviceEmbedding::Options table;
    table.table = tables[t];
    table.rows = options_.device_rows;
    table.max_places = options_.batch * static_cast<size_t>(std::count(
                                            layout_.table_of_field.begin(),
                                            layout_.table_of_field.end(), t));
    table.device = device_.get();
    table.stream = stream_;
    CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<DeviceEmbedding> made,
                            DeviceEmbedding::Make(table));
    tables_.push_back(std::move(made));
  }
  return absl::OkStatus();
}

absl::Status DeviceModel::MakePerceptron() {
  const size_t width = layout_.fields() * options_.dim;
  CKPTDB_ASSIGN_OR_RETURN(
      mlp_, DeviceMlp::Make(Mlp(width, options_.hidden, options_.seed),
                            options_.batch, stream_, *transfer_));
  CKPTDB_ASSIGN_OR_RETURN(inputs_,
                          DeviceArray<float>::Make(options_.batch * width));
  CKPTDB_ASSIGN_OR_RETURN(input_gradient_,
                          DeviceArray<float>::Make(options_.batch * width));
  return absl::OkStatus();
}

// Nothing that is queued refers to memory that goes.
DeviceModel::~DeviceModel() {
  if (stream_ == nullptr) return;
  CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize")
      .IgnoreError();
  tables_.clear();
  mlp_.reset();
  cudaStreamDestroy(stream_);
}

absl::Status DeviceModel::Split(const Batch& batch) {
  if (batch.size() > options_.batch) {
    return absl::InvalidArgumentError(absl::StrCat("a batch has ", batch.size(),
                                                   " examples, expected up to ",
                                                   options_.batch));
  }
  for (TablePlaces& of_table : places_) of_table.Clear();
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    TablePlaces& of_table =
        places_[layout_.table_of_field[i % layout_.fields()]];
    of_table.ids.push_back(batch.ids[i]);
    of_table.places.push_back(static_cast<uint32_t>(i));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> DeviceModel::Forward(const Batch& share,
                                                        int64_t step) {
  CKPTDB_RETURN_IF_ERROR(Split(share));
  for (size_t t = 0; t < tables_.size(); ++t) {
    CKPTDB_RETURN_IF_ERROR(tables_[t]->Touch(places_[t], step, inputs_.get()));
  }
  return RunPerceptron(share.size());
}

absl::StatusOr<std::vector<float>> DeviceModel::Predict(const Batch& share) {
  CKPTDB_RETURN_IF_ERROR(Split(share));
  for (size_t t = 0; t < tables_.size(); ++t) {
    CKPTDB_RETURN_IF_ERROR(tables_[t]->LookUp(places_[t], inputs_.get()));
  }
  return RunPerceptron(share.size());
}

absl::StatusOr<std::vector<float>> DeviceModel::RunPerceptron(size_t examples) {
  CKPTDB_RETURN_IF_ERROR(mlp_->Forward(inputs_.get(), examples));
  CKPTDB_RETURN_IF_ERROR(mlp_->logits().Download(examples, stream_));
  CKPTDB_RETURN_IF_ERROR(
      CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
  const float* const logits = mlp_->logits().host();
  return std::vector<float>(logits, logits + examples);
}

// The wait for the logits was one for the uploads of the step before, too.
absl::Status DeviceModel::Backward(const std::vector<float>& logit_gradient) {
  const size_t examples = logit_gradient.size();
  std::copy(logit_gradient.begin(), logit_gradient.end(),
            mlp_->logit_gradient().host());
  CKPTDB_RETURN_IF_ERROR(mlp_->logit_gradient().Upload(examples, stream_));
  CKPTDB_RETURN_IF_ERROR(
      mlp_->Backward(inputs_.get(), examples, input_gradient_.get()));
  for (const auto& table : tables_) {
    CKPTDB_RETURN_IF_ERROR(table->ApplyGradients(
        input_gradient_.get(), options_.sparse_learning_rate));
  }
  return mlp_->ApplyAdam({.learning_rate = options_.dense_learning_rate});
}

absl::Status DeviceModel::EraseUnseenSince(int64_t step) {
  for (const auto& table : tables_) {
    CKPTDB_RETURN_IF_ERROR(table->EraseUnseenSince(step));
  }
  return absl::OkStatus();
}

size_t DeviceModel::rows() const {
  size_t rows = 0;
  for (const auto& table : tables_) rows += table->rows();
  return rows;
}

absl::StatusOr<StateView> DeviceModel::View() {
  read_back_.clear();
  for (const auto& table : tables_) {
    CKPTDB_ASSIGN_OR_RETURN(EmbeddingTable read, table->Read(*transfer_));
    read_back_.push_back(std::move(read));
  }
  StateView view;
  for (const EmbeddingTable& table : read_back_) view.tables.push_back(&table);
  CKPTDB_ASSIGN_OR_RETURN(view.tensors, mlp_->Read(*transfer_));
  return view;
}

absl::Status DeviceModel::Register(ckptdb::ModelState* state) {
  CKPTDB_RETURN_IF_ERROR(mlp_->Register(device_.get(), state));
  const ckptdb::TableSharding sharding = DeclaredSharding(options_.sharding);
  for (const auto& table : tables_) {
    CKPTDB_RETURN_IF_ERROR(
        state->AddTable(table->name(), table->state(), sharding));
  }
  return absl::OkStatus();
}

absl::Status DeviceModel::OnRestored() {
  for (const auto& table : tables_) {
    CKPTDB_RETURN_IF_ERROR(table->Reindex(*transfer_));
  }
  return absl::OkStatus();
}

}  // namespace train_ctr
