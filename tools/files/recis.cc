// SPDX-License-Identifier: Apache-2.0
#include "tools/files/recis.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/files/inflated.h"
#include "tools/files/mapped_file.h"
#include "tools/files/safetensors.h"
#include "tools/files/torch_file.h"

namespace ckptdb::tool {
namespace {

using RecisJson = nlohmann::json;

constexpr char kIndex[] = "index";
constexpr char kTensorKeys[] = "tensorkey.json";
constexpr char kServing[] = "torch_rank_weights_embs_table_multi_shard.json";
constexpr char kModel[] = "model.pt";
constexpr char kNewest[] = "checkpoint";
constexpr char kDenseSlice[] = " ";
constexpr uint64_t kMaxJsonBytes = uint64_t{256} << 20;

bool IsDataFile(const std::string& name) {
  return absl::StartsWith(name, "model-") &&
         absl::EndsWith(name, ".safetensors");
}

// Returns the names of the regular files of a folder.
absl::StatusOr<std::set<std::string>> FileNames(
    const std::filesystem::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) {
      names.insert(entry->path().filename().string());
    }
  }
  if (!error) return names;
  return absl::InternalError(
      absl::StrCat("cannot list \"", folder.string(), "\": ", error.message()));
}

absl::StatusOr<std::string> ReadWhole(const std::string& path, uint64_t limit) {
  CKPTDB_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  if (file->bytes().size() > limit) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", file->bytes().size(), " bytes; the limit is ", limit));
  }
  return std::string(file->bytes());
}

absl::StatusOr<RecisJson> ReadObject(const std::string& path) {
  auto text = ReadWhole(path, kMaxJsonBytes);
  if (!text.ok()) return InFile(path, text.status());
  RecisJson json = RecisJson::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(path + ": expected a JSON object");
}

// --- Reading.

class RecisLoader {
 public:
  RecisLoader(std::filesystem::path folder, LoadedFiles* files)
      : folder_(std::move(folder)), files_(files) {}

  absl::Status Load() {
    CKPTDB_ASSIGN_OR_RETURN(names_, FileNames(folder_));
    if (names_.contains(kTensorKeys)) {
      CKPTDB_ASSIGN_OR_RETURN(keys_, ReadObject(Path(kTensorKeys)));
    }
    if (names_.contains(kIndex)) {
      CKPTDB_ASSIGN_OR_RETURN(index_, ReadObject(Path(kIndex)));
    }
    for (const std::string& name : names_) {
      CKPTDB_RETURN_IF_ERROR(LoadOne(name));
    }
    CKPTDB_RETURN_IF_ERROR(CheckIndex());
    for (auto& [table, parts] : tables_) {
      CKPTDB_RETURN_IF_ERROR(AddTable(table, parts));
    }
    if (dense_.empty()) return absl::OkStatus();
    return files_->AddBlob(kRecisTensors, RecisJson(dense_).dump());
  }

 private:
  using Slices = std::pair<uint32_t, uint32_t>;
  using Blocks = std::map<std::string, FileArray>;  // by slot

  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  absl::Status LoadOne(const std::string& name) {
    if (IsDataFile(name)) {
      return IsListed(name) ? InFile(Path(name), LoadBlocks(Path(name)))
                            : absl::OkStatus();
    }
    if (name == kModel)
      return InFile(Path(name), LoadTorch(Path(name), files_));
    // These follow from the blocks.
    if (name == kIndex || name == kTensorKeys || name == kServing) {
      return absl::OkStatus();
    }
    auto bytes = ReadWhole(Path(name), kMaxBlobBytes);
    if (!bytes.ok()) return InFile(Path(name), bytes.status());
    return files_->AddBlob(kRecisPrefix + name, *std::move(bytes));
  }
  // Files that the index does not name are left from another checkpoint.
  bool IsListed(const std::string& name) const {
    const auto files = index_.find("file_index");
    return files == index_.end() || !files->is_object() ||
           files->contains(name);
  }
  absl::Status LoadBlocks(const std::string& path) {
    CKPTDB_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
    CKPTDB_ASSIGN_OR_RETURN(Safetensors parsed,
                            ParseSafetensors(file->bytes()));
    files_->owners.push_back(file);
    for (FileArray& array : parsed.arrays) {
      seen_.insert(array.spec.name);
      CKPTDB_RETURN_IF_ERROR(AddBlock(std::move(array)));
    }
    return absl::OkStatus();
  }
  // Older checkpoints have the inside names in the files.
  absl::StatusOr<std::string> InsideName(const std::string& name) const {
    const auto key = keys_.find(name);
    if (key == keys_.end()) return name;
    if (key->is_string()) return key->get<std::string>();
    return absl::InvalidArgumentError(
        absl::StrCat(kTensorKeys, " has no text for \"", name, "\""));
  }
  absl::Status AddBlock(FileArray array) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string inside,
                            InsideName(array.spec.name));
    seen_.insert(inside);
    const size_t caret = inside.rfind('^');
    const std::string name = inside.substr(0, caret);
    const std::string slice =
        caret == std::string::npos ? "" : inside.substr(caret + 1);
    if (slice == kDenseSlice) {
      array.spec.name = name;
      dense_.push_back(name);
      files_->arrays.push_back(std::move(array));
      return absl::OkStatus();
    }
    const size_t at = name.rfind('@');
    CKPTDB_ASSIGN_OR_RETURN(const Slices slices, ParseSlices(inside, slice));
    if (at == std::string::npos || at == 0 || at + 1 == name.size()) {
      return BadName(inside);
    }
    Blocks& blocks = tables_[name.substr(0, at)][slices];
    if (blocks.emplace(name.substr(at + 1), std::move(array)).second) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("a second block \"", inside, "\""));
  }
  static absl::Status BadName(const std::string& inside) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block \"", inside, "\": expected table@slot^begin@end@65536"));
  }
  static absl::StatusOr<Slices> ParseSlices(const std::string& inside,
                                            const std::string& slice) {
    const std::vector<std::string> parts = absl::StrSplit(slice, '@');
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t all = 0;
    const bool valid =
        parts.size() == 3 && absl::SimpleAtoi(parts[0], &begin) &&
        absl::SimpleAtoi(parts[1], &end) && absl::SimpleAtoi(parts[2], &all) &&
        begin <= end && end <= all && all == kSlices;
    if (!valid) return BadName(inside);
    return Slices{begin, end};
  }

  // All blocks that the index names must be in the files.
  absl::Status CheckIndex() const {
    if (!names_.contains(kIndex)) {
      if (seen_.empty()) return absl::OkStatus();
      return absl::DataLossError("\"index\" is missing: the save did not end");
    }
    const auto blocks = index_.find("block_index");
    if (blocks == index_.end() || !blocks->is_object()) {
      return absl::InvalidArgumentError("index: no object \"block_index\"");
    }
    for (const auto& [name, file] : blocks->items()) {
      if (seen_.contains(name)) continue;
      return absl::DataLossError(absl::StrCat("block \"", Printable(name),
                                              "\" of the index is in no file"));
    }
    return absl::OkStatus();
  }
  absl::Status AddTable(const std::string& name,
                        std::map<Slices, Blocks>& parts) {
    FileTable table;
    table.name = name;
    uint32_t next = 0;
    for (auto& [slices, blocks] : parts) {
      if (slices.first != next) break;
      next = slices.second;
      CKPTDB_RETURN_IF_ERROR(AddPart(&blocks, &table));
    }
    if (next == kSlices && table.blocks.size() == parts.size()) {
      files_->tables.push_back(std::move(table));
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat("table \"", Printable(name),
                                            "\": slices are missing or "
                                            "repeated from ",
                                            next, " on"));
  }
  absl::Status AddPart(Blocks* blocks, FileTable* table) const {
    FileTable::Block block;
    std::vector<std::string> slots;
    for (auto& [slot, array] : *blocks) {
      if (slot == kRecisIds) {
        block.ids = std::move(array);
      } else {
        slots.push_back(slot);
        block.slots.push_back(std::move(array));
      }
    }
    const ArraySpec& ids = block.ids.spec;
    if (ids.dtype != DType::kI64 || ids.shape.size() != 1) {
      return absl::DataLossError(absl::StrCat(
          "table \"", Printable(table->name), "\": a rank has no ids"));
    }
    if (table->blocks.empty()) table->slots = slots;
    if (table->slots != slots) {
      return absl::DataLossError(absl::StrCat(
          "table \"", Printable(table->name),
          "\": ranks have different slots, ", absl::StrJoin(table->slots, ", "),
          " and ", absl::StrJoin(slots, ", ")));
    }
    table->blocks.push_back(std::move(block));
    return absl::OkStatus();
  }

  const std::filesystem::path folder_;
  LoadedFiles* const files_;
  std::set<std::string> names_;  // of files
  RecisJson keys_ = RecisJson::object();
  RecisJson index_ = RecisJson::object();
  std::set<std::string> seen_;  // names of blocks, also inside names
  std::map<std::string, std::map<Slices, Blocks>> tables_;
  std::vector<std::string> dense_;
};

bool IsCheckpoint(const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == kModel || IsDataFile(name);
  });
}

// The last line of the file "checkpoint".
absl::StatusOr<std::string> NewestId(const std::string& path) {
  auto text = ReadWhole(path, kMaxJsonBytes);
  if (!text.ok()) return InFile(path, text.status());
  std::string id;
  for (const auto line :
       absl::StrSplit(*text, absl::ByAnyChar("\r\n"), absl::SkipEmpty())) {
    id = std::string(line);
  }
  if (!id.empty() && id != "." && id != ".." && !absl::StrContains(id, '/') &&
      !absl::StrContains(id, '\0')) {
    return id;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": \"", Printable(id), "\" is not the name of a folder"));
}

// --- Writing.

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
  RecisJson index = {{"block_index", RecisJson::object()},
                     {"file_index", RecisJson::object()}};
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

// Describes embeddings and dense tensors to a server.
std::string ServingText(uint32_t world, const std::vector<ArraySpec>& arrays,
                        const std::vector<RecisBlock>& blocks) {
  RecisJson serving = RecisJson::object();
  for (size_t i = 0; i < arrays.size(); ++i) {
    const RecisBlock& block = blocks[i];
    const bool dense = block.table.empty();
    if (block.in_model || (!dense && block.slot != "embedding")) continue;
    RecisJson entry = {{"name", arrays[i].name},
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
                            ReadWhole(path, kMaxJsonBytes));
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
  CKPTDB_ASSIGN_OR_RETURN(const std::string ids,
                          AddedId(absl::StrCat(folder_path, "/", kNewest), id));
  return WriteText(folder, kNewest, ids, /*replace=*/true);
}

}  // namespace

absl::Status LoadRecis(const std::string& path, LoadedFiles* files) {
  std::filesystem::path folder = path;
  CKPTDB_ASSIGN_OR_RETURN(const std::set<std::string> names, FileNames(folder));
  if (!IsCheckpoint(names)) {
    if (!std::filesystem::exists(folder / kNewest)) {
      return absl::InvalidArgumentError(
          "is no checkpoint of RecIS: it has no model-*.safetensors, model.pt "
          "or \"checkpoint\"");
    }
    CKPTDB_ASSIGN_OR_RETURN(const std::string id,
                            NewestId((folder / kNewest).string()));
    folder /= id;
    if (!std::filesystem::is_directory(folder)) {
      return absl::NotFoundError(
          absl::StrCat("\"", folder.string(), "\" is missing"));
    }
  }
  return RecisLoader(folder, files).Load();
}

std::string RecisBlockName(const RecisBlock& block, const std::string& tensor,
                           uint32_t world) {
  if (block.table.empty()) return absl::StrCat(tensor, "^", kDenseSlice);
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
  const RecisLayout layout = LayOut(id, world, arrays, blocks);
  CKPTDB_ASSIGN_OR_RETURN(
      auto writer, NewSafetensorsFilesWriter(folder, arrays, layout.files, {}));
  std::unique_ptr<ArrayWriter> model;
  std::map<size_t, size_t> in_model;
  std::vector<ArraySpec> tensors;
  RecisJson keys = RecisJson::object();
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
        model, NewTorchWriter(folder, absl::StrCat(id, "/", kModel), tensors));
  }
  std::map<std::string, std::string> texts = extra;
  texts[kIndex] = IndexText(layout);
  texts[kTensorKeys] = keys.dump(4);
  texts[kServing] = ServingText(world, arrays, blocks);
  CKPTDB_RETURN_IF_ERROR(WriteTexts(folder, folder_path, id, texts));
  return std::make_unique<RecisWriter>(std::move(writer), std::move(model),
                                       std::move(in_model));
}

}  // namespace ckptdb::tool
