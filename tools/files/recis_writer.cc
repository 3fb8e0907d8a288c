// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/files/recis.h"
#include "tools/files/recis_names.h"
#include "tools/files/safetensors.h"

namespace ckptdb::tool {
namespace {

using WrittenJson = nlohmann::json;

// Which file has which block: blocks of a rank go round-robin over its files.
struct RecisLayout {
  std::vector<SafetensorsFile> files;
  std::map<std::string, size_t> file_of;  // by block, a place in `files`
};

RecisLayout LayOut(const std::string& id, uint32_t world,
                   const std::vector<ArraySpec>& arrays,
                   const std::vector<RecisBlock>& blocks) {
  std::vector<std::vector<size_t>> files(size_t{world} * kRecisParallel);
  std::vector<uint32_t> next(world, 0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].in_model) continue;
    const uint32_t rank = blocks[i].rank;
    const size_t file = size_t{rank} * kRecisParallel + next[rank];
    files[file].push_back(i);
    next[rank] = (next[rank] + 1) % kRecisParallel;
  }
  RecisLayout layout;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;
    for (const size_t array : files[i]) {
      layout.file_of[arrays[array].name] = layout.files.size();
    }
    layout.files.push_back({absl::StrFormat("%s/model-%06d-of-%06d.safetensors",
                                            id, i, files.size()),
                            std::move(files[i])});
  }
  return layout;
}

std::string IndexText(const RecisLayout& layout) {
  WrittenJson index = {{"block_index", WrittenJson::object()},
                       {"file_index", WrittenJson::object()}};
  for (size_t i = 0; i < layout.files.size(); ++i) {
    const std::string& path = layout.files[i].name;
    index["file_index"][path.substr(path.rfind('/') + 1)] = i;
  }
  for (const auto& [block, file] : layout.file_of) {
    index["block_index"][block] = file;
  }
  return index.dump();
}

std::string InsideNameOf(const RecisBlock& block) {
  return absl::StrCat(block.table, "@", block.slot, "^", block.slices.begin,
                      "@", block.slices.end, "@", kSlices);
}

// "float32", as PyTorch names it.
std::string ServingDType(DType dtype) {
  const std::string name(DTypeName(dtype));
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"bf16", "bfloat16"},
      {"f8e4m3", "float8_e4m3fn"},
      {"f8e5m2", "float8_e5m2"},
      {"bool", "bool"}};
  for (const auto& [ours, theirs] : kNames) {
    if (name == ours) return theirs;
  }
  const absl::string_view bits = absl::string_view(name).substr(1);
  const char* kind = name[0] == 'f' ? "float" : name[0] == 'u' ? "uint" : "int";
  return absl::StrCat(kind, bits);
}

// Dots separate tables and slots, so those of "a.b" and "c" may collide with
// those of "a" and "b.c".
absl::Status CheckDistinctBlocks(const std::vector<ArraySpec>& arrays) {
  std::set<absl::string_view> names;
  for (const ArraySpec& array : arrays) {
    if (names.insert(array.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("two blocks would have the name \"", Printable(array.name),
                     "\"; export their tables separately, by a GLOB"));
  }
  return absl::OkStatus();
}

// Describes embeddings and dense tensors, also those of model.pt, to a server.
std::string ServingText(uint32_t world, const std::vector<ArraySpec>& arrays,
                        const std::vector<RecisBlock>& blocks) {
  WrittenJson serving = WrittenJson::object();
  for (size_t i = 0; i < arrays.size(); ++i) {
    const RecisBlock& block = blocks[i];
    const bool dense = block.table.empty();
    if (!dense && block.slot != "embedding") continue;
    WrittenJson entry = {{"name", arrays[i].name},
                         {"dtype", ServingDType(arrays[i].dtype)},
                         {"shape", arrays[i].shape},
                         {"dense", dense},
                         {"is_hashmap", !dense},
                         {"dimension", dense ? 0 : arrays[i].shape.back()}};
    if (!dense) {
      RecisBlock ids = block;
      ids.slot = kRecisIds;
      entry["hashmap_key"] = RecisBlockName(ids, "", world);
      entry["hashmap_key_dtype"] = "int64";
      entry["hashmap_value"] = arrays[i].name;
    }
    serving[arrays[i].name] = std::move(entry);
  }
  return serving.dump(4);
}

// Writes each array to the files of safetensors or to model.pt.
class RecisWriter : public ArrayWriter {
 public:
  RecisWriter(std::unique_ptr<ArrayWriter> blocks,
              std::unique_ptr<ArrayWriter> model,
              std::map<size_t, size_t> in_model)
      : blocks_(std::move(blocks)),
        model_(std::move(model)),
        in_model_(std::move(in_model)) {}
  absl::Status Write(size_t array, uint64_t at,
                     absl::string_view bytes) override {
    const auto found = in_model_.find(array);
    return found == in_model_.end() ? blocks_->Write(array, at, bytes)
                                    : model_->Write(found->second, at, bytes);
  }
  absl::Status Finish() override {
    CKPTDB_RETURN_IF_ERROR(blocks_->Finish());
    return model_ == nullptr ? absl::OkStatus() : model_->Finish();
  }

 private:
  const std::unique_ptr<ArrayWriter> blocks_;
  const std::unique_ptr<ArrayWriter> model_;  // null if it has no tensor
  const std::map<size_t, size_t> in_model_;   // arrays by place
};

absl::Status WriteText(OutputFolder* folder, const std::string& name,
                       const std::string& text, bool replace) {
  CKPTDB_ASSIGN_OR_RETURN(OutputFile * file,
                          folder->Create(name, text.size(), replace));
  return file->Write(0, text);
}

// The ids of a folder with this one last.
absl::StatusOr<std::string> AddedId(const std::string& path,
                                    const std::string& id) {
  std::string text;
  if (std::filesystem::exists(path)) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string old,
                            ReadWholeFile(path, kMaxRecisJsonBytes));
    for (const auto line : absl::StrSplit(old, '\n', absl::SkipEmpty())) {
      if (line != id) absl::StrAppend(&text, line, "\n");
    }
  }
  return absl::StrCat(text, id, "\n");
}

// Writes the small files, and at the end the one that names the checkpoint.
absl::Status WriteTexts(OutputFolder* folder, const std::string& folder_path,
                        const std::string& id,
                        const std::map<std::string, std::string>& texts) {
  for (const auto& [name, text] : texts) {
    CKPTDB_RETURN_IF_ERROR(
        WriteText(folder, absl::StrCat(id, "/", name), text, false));
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string ids,
      AddedId(absl::StrCat(folder_path, "/", kRecisNewest), id));
  return WriteText(folder, kRecisNewest, ids, /*replace=*/true);
}

}  // namespace

std::string RecisBlockName(const RecisBlock& block, const std::string& tensor,
                           uint32_t world) {
  if (block.table.empty()) return absl::StrCat(tensor, "^", kRecisDenseSlice);
  return absl::StrCat(block.table, ".", block.slot, "/part_", block.rank, "_",
                      world);
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> NewRecisWriter(
    OutputFolder* folder, const std::string& folder_path, const std::string& id,
    uint32_t world, std::vector<ArraySpec> arrays,
    const std::vector<RecisBlock>& blocks,
    const std::map<std::string, std::string>& extra) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (blocks[i].in_model) continue;
    arrays[i].name = RecisBlockName(blocks[i], arrays[i].name, world);
  }
  CKPTDB_RETURN_IF_ERROR(CheckDistinctBlocks(arrays));
  const RecisLayout layout = LayOut(id, world, arrays, blocks);
  CKPTDB_ASSIGN_OR_RETURN(
      auto writer, NewSafetensorsFilesWriter(folder, arrays, layout.files, {}));
  std::unique_ptr<ArrayWriter> model;
  std::map<size_t, size_t> in_model;
  std::vector<ArraySpec> tensors;
  WrittenJson keys = WrittenJson::object();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (blocks[i].in_model) {
      in_model[i] = tensors.size();
      tensors.push_back(arrays[i]);
    } else if (!blocks[i].table.empty()) {
      keys[arrays[i].name] = InsideNameOf(blocks[i]);
    }
  }
  if (!tensors.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(
        model,
        NewTorchWriter(folder, absl::StrCat(id, "/", kRecisModel), tensors));
  }
  std::map<std::string, std::string> texts = extra;
  texts[kRecisIndex] = IndexText(layout);
  texts[kRecisTensorKeys] = keys.dump(4);
  texts[kRecisServing] = ServingText(world, arrays, blocks);
  CKPTDB_RETURN_IF_ERROR(WriteTexts(folder, folder_path, id, texts));
  return std::make_unique<RecisWriter>(std::move(writer), std::move(model),
                                       std::move(in_model));
}

}  // namespace ckptdb::tool
