// SPDX-License-Identifier: Apache-2.0
#include "tools/files/recis.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/files/inflated.h"
#include "tools/files/inside_folder.h"
#include "tools/files/mapped_file.h"
#include "tools/files/recis_names.h"
#include "tools/files/safetensors.h"
#include "tools/files/torch_file.h"

namespace ckptdb::tool {
namespace {

using RecisJson = nlohmann::json;

constexpr char kUnfinished[] = ".tmp";  // a file that is being written

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

absl::StatusOr<RecisJson> ReadObject(const std::string& path) {
  auto text = ReadWholeFile(path, kMaxRecisJsonBytes);
  if (!text.ok()) return InFile(path, text.status());
  RecisJson json = RecisJson::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(path + ": expected a JSON object");
}

class RecisLoader {
 public:
  RecisLoader(std::filesystem::path folder, LoadedFiles* files)
      : folder_(std::move(folder)), files_(files) {}

  absl::Status Load() {
    CKPTDB_ASSIGN_OR_RETURN(names_, FileNames(folder_));
    for (const std::string& name : names_) {
      CKPTDB_RETURN_IF_ERROR(CheckInside(folder_.string(), name));
    }
    if (names_.contains(kRecisTensorKeys)) {
      CKPTDB_ASSIGN_OR_RETURN(keys_, ReadObject(Path(kRecisTensorKeys)));
    }
    if (names_.contains(kRecisIndex)) {
      CKPTDB_ASSIGN_OR_RETURN(index_, ReadObject(Path(kRecisIndex)));
    }
    CKPTDB_RETURN_IF_ERROR(ReadFileIndex());
    const size_t first = files_->arrays.size();
    for (const std::string& name : names_) {
      CKPTDB_RETURN_IF_ERROR(LoadOne(name));
    }
    for (size_t i = first; i < files_->arrays.size(); ++i) {
      files_->arrays[i].tensor_only = true;
    }
    CKPTDB_RETURN_IF_ERROR(CheckIndex());
    for (auto& [table, parts] : tables_) {
      CKPTDB_RETURN_IF_ERROR(AddTable(table, parts));
    }
    if (tables_.empty() && files_->arrays.size() == first) {
      return absl::InvalidArgumentError(
          "contains neither a table nor a dense tensor: nothing to import");
    }
    CKPTDB_RETURN_IF_ERROR(AddNotes());
    return absl::OkStatus();
  }

 private:
  using Slices = std::pair<uint32_t, uint32_t>;
  using Blocks = std::map<std::string, FileArray>;  // by slot

  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }
  absl::Status LoadOne(const std::string& name) {
    if (IsRecisDataFile(name)) {
      return IsListed(name) ? InFile(Path(name), LoadBlocks(Path(name)))
                            : absl::OkStatus();
    }
    if (name == kRecisModel)
      return InFile(Path(name), LoadTorch(Path(name), files_));
    // These follow from the blocks, or are left from a save that was killed.
    if (name == kRecisIndex || name == kRecisTensorKeys ||
        name == kRecisServing || absl::EndsWith(name, kUnfinished)) {
      return absl::OkStatus();
    }
    auto bytes = ReadWholeFile(Path(name), kMaxBlobBytes);
    if (!bytes.ok()) return InFile(Path(name), bytes.status());
    return files_->AddBlob(kRecisPrefix + name, *std::move(bytes));
  }
  // Files that the index does not name are left from another checkpoint. RecIS
  // writes numbers by name; names by number, and a list, are as clear.
  absl::Status ReadFileIndex() {
    const auto files = index_.find("file_index");
    if (files == index_.end()) return absl::OkStatus();
    listed_.emplace();
    for (const auto& [key, value] : files->items()) {
      if (value.is_string()) {
        listed_->insert(value.get<std::string>());
      } else if (files->is_object() && value.is_number_unsigned()) {
        listed_->insert(key);
      } else {
        return absl::InvalidArgumentError(absl::StrCat(
            "index: the number of file \"", Printable(key), "\" is ",
            Printable(value.dump()), "; expected an unsigned integer"));
      }
    }
    size_t all = 0;
    for (const std::string& name : names_) all += IsRecisDataFile(name) ? 1 : 0;
    const bool none =
        std::none_of(names_.begin(), names_.end(), [&](const auto& name) {
          return IsRecisDataFile(name) && listed_->contains(name);
        });
    if (all == 0 || !none) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("index: \"file_index\" names none of the ", all,
                     " files model-*.safetensors"));
  }
  bool IsListed(const std::string& name) const {
    return !listed_.has_value() || listed_->contains(name);
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
  // Older checkpoints have the inside names in the files. RecIS omits the slice
  // of a dense tensor whose name contains "/part_".
  absl::StatusOr<std::string> InsideName(const std::string& name) const {
    const auto key = keys_.find(name);
    if (key != keys_.end()) {
      if (key->is_string()) return key->get<std::string>();
      return absl::InvalidArgumentError(absl::StrCat(
          kRecisTensorKeys, " has no text for \"", Printable(name), "\""));
    }
    if (absl::StrContains(name, '^')) return name;
    std::string dense = absl::StrCat(name, "^", kRecisDenseSlice);
    const auto blocks = index_.find("block_index");
    if (blocks != index_.end() && blocks->is_object() &&
        blocks->contains(dense)) {
      return dense;
    }
    if (names_.contains(kRecisTensorKeys)) return name;
    return absl::DataLossError(absl::StrCat(
        "block \"", Printable(name), "\" has no slices, and \"",
        kRecisTensorKeys, "\" is missing: the save did not finish"));
  }
  absl::Status AddBlock(FileArray array) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string inside,
                            InsideName(array.spec.name));
    seen_.insert(inside);
    const size_t caret = inside.rfind('^');
    const std::string name = inside.substr(0, caret);
    const std::string slice =
        caret == std::string::npos ? "" : inside.substr(caret + 1);
    if (slice == kRecisDenseSlice) {
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
        absl::StrCat("a second block \"", Printable(inside), "\""));
  }
  static absl::Status BadName(const std::string& inside) {
    return absl::InvalidArgumentError(
        absl::StrCat("block \"", Printable(inside),
                     "\": expected table@slot^begin@end@65536"));
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
    if (!names_.contains(kRecisIndex)) {
      if (seen_.empty()) return absl::OkStatus();
      return absl::DataLossError(
          "\"index\" is missing: the save did not finish");
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
  // Slots are stored flat; an export gives them their shapes again.
  absl::Status NoteShape(const std::string& table, const std::string& slot,
                         const Shape& shape) {
    if (shape.empty()) return absl::OkStatus();  // AddArrays returns an error
    const Shape inner(shape.begin() + 1, shape.end());
    const auto [noted, added] = shapes_[table].emplace(slot, inner);
    if (added || noted->second == inner) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "table \"", Printable(table), "\": rows of slot \"", Printable(slot),
        "\" are ", ToString(noted->second), " and ", ToString(inner),
        "; expected one shape on all ranks"));
  }
  // Adds the blobs from which an export restores the directory's layout.
  absl::Status AddNotes() const {
    if (!dense_.empty()) {
      CKPTDB_RETURN_IF_ERROR(
          files_->AddBlob(kRecisTensors, RecisJson(dense_).dump()));
    }
    RecisJson shapes = RecisJson::object();
    for (const auto& [table, slots] : shapes_) {
      for (const auto& [slot, inner] : slots) {
        if (inner.size() != 1) shapes[table][slot] = inner;
      }
    }
    return shapes.empty() ? absl::OkStatus()
                          : files_->AddBlob(kRecisSlots, shapes.dump());
  }
  absl::Status AddPart(Blocks* blocks, FileTable* table) {
    FileTable::Block block;
    std::vector<std::string> slots;
    for (auto& [slot, array] : *blocks) {
      if (slot == kRecisIds) {
        block.ids = std::move(array);
      } else {
        slots.push_back(slot);
        CKPTDB_RETURN_IF_ERROR(NoteShape(table->name, slot, array.spec.shape));
        block.slots.push_back(std::move(array));
      }
    }
    if (block.ids.data == nullptr) {
      return absl::DataLossError(absl::StrCat(
          "table \"", Printable(table->name), "\": a rank has no ids"));
    }
    const ArraySpec& ids = block.ids.spec;
    if (ids.dtype != DType::kI64 || ids.shape.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table \"", Printable(table->name), "\": the ids of a rank are ",
          DTypeName(ids.dtype), ToString(ids.shape), "; expected i64[rows]"));
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
  std::set<std::string> names_;  // the folder's files
  RecisJson keys_ = RecisJson::object();
  RecisJson index_ = RecisJson::object();
  std::set<std::string> seen_;  // names of blocks, also inside names
  std::map<std::string, std::map<Slices, Blocks>> tables_;
  std::vector<std::string> dense_;
  std::optional<std::set<std::string>> listed_;  // files that the index names
  std::map<std::string, std::map<std::string, Shape>> shapes_;
};

bool IsCheckpoint(const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == kRecisModel || IsRecisDataFile(name);
  });
}

// The last line of the file "checkpoint".
absl::StatusOr<std::string> NewestId(const std::string& path) {
  auto text = ReadWholeFile(path, kMaxRecisJsonBytes);
  if (!text.ok()) return InFile(path, text.status());
  std::string id;
  for (const auto line :
       absl::StrSplit(*text, absl::ByAnyChar("\r\n"), absl::SkipEmpty())) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(line);
    if (!stripped.empty()) id = std::string(stripped);
  }
  if (!id.empty() && id != "." && id != ".." && !absl::StrContains(id, '/') &&
      !absl::StrContains(id, '\0')) {
    return id;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": \"", Printable(id), "\" is not the name of a folder"));
}

}  // namespace

absl::Status LoadRecis(const std::string& path, LoadedFiles* files) {
  std::filesystem::path folder = path;
  CKPTDB_ASSIGN_OR_RETURN(const std::set<std::string> names, FileNames(folder));
  if (!IsCheckpoint(names)) {
    if (!std::filesystem::exists(folder / kRecisNewest)) {
      return absl::InvalidArgumentError(
          "is not a RecIS checkpoint: it has no model-*.safetensors, model.pt "
          "or \"checkpoint\"");
    }
    CKPTDB_RETURN_IF_ERROR(CheckInside(path, kRecisNewest));
    CKPTDB_ASSIGN_OR_RETURN(const std::string id,
                            NewestId((folder / kRecisNewest).string()));
    folder /= id;
    if (!std::filesystem::is_directory(folder)) {
      return absl::NotFoundError(
          absl::StrCat("\"", folder.string(), "\" is missing"));
    }
    CKPTDB_RETURN_IF_ERROR(CheckInside(path, id));
  }
  return RecisLoader(folder, files).Load();
}

}  // namespace ckptdb::tool
