// The example of README.md: what stands between the marks is there as well,
// byte for byte, and tests/docs compares them.
//
//   quickstart FOLDER
//
// [readme]
#include <ckptdb/ckptdb.h>

#include <iostream>

absl::Status SaveAndRestore(const char* folder) {
  const std::vector<float> weights(12, 0.5f);      // a tensor of 3 x 4
  const std::vector<int64_t> ids = {17, -3, 900};  // a table of three rows
  const std::vector<float> embedding(3 * 16, 0.1f);
  ckptdb::RowSource::Arrays users(ids, {{embedding.data(), 64}});
  ckptdb::RankState state;
  state.AddTensor("mlp", ckptdb::TensorView::Of(weights.data(), {3, 4}));
  state.AddTable("user", {{"embedding", ckptdb::DType::kF32, 16}}, &users);
  state.AddBlob("reader", "epoch 2, line 7000");

  CKPTDB_ASSIGN_OR_RETURN(auto store, ckptdb::Store::Open(folder));
  const ckptdb::SaveSpec spec = {.step = 1000, .overwrite = true};
  CKPTDB_RETURN_IF_ERROR(store->Save(spec, state).status());

  CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(1000));
  std::vector<float> restored(12);
  CKPTDB_RETURN_IF_ERROR(step->ReadTensor("mlp", restored.data(), 48));
  CKPTDB_ASSIGN_OR_RETURN(const auto row, step->LookupRow("user", -3));
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, step->ReadBlob(0, "reader"));
  std::cout << "row -3 has " << row.slots[0].size()
            << " bytes of embedding, the reader goes on at " << reader << "\n";
  return absl::OkStatus();
}
// [readme end]

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: quickstart FOLDER\n";
    return 2;
  }
  const absl::Status status = SaveAndRestore(argv[1]);
  if (!status.ok()) std::cerr << "quickstart: " << status << "\n";
  return status.ok() ? 0 : 1;
}
