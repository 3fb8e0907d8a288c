// SPDX-License-Identifier: Apache-2.0
#include "tools/files/loaded_files.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schema/status.h"
#include "tools/files/file_error.h"
#include "tools/files/file_name.h"
#include "tools/files/inflated.h"
#include "tools/files/inside_folder.h"
#include "tools/files/mapped_file.h"
#include "tools/files/npy.h"
#include "tools/files/recis.h"
#include "tools/files/safetensors.h"
#include "tools/files/torch_file.h"
#include "tools/files/zip.h"

namespace ckptdb::tool {
namespace {

using SharedFile = std::shared_ptr<const MappedFile>;

// Adds an array of the .npy format whose bytes are in `owner`.
absl::Status AddNpy(const std::string& name, absl::string_view bytes,
                    SharedFile owner, LoadedFiles* files) {
  CKPTDB_ASSIGN_OR_RETURN(const NpyArray array, ParseNpy(bytes));
  FileArray added;
  CKPTDB_ASSIGN_OR_RETURN(added.spec,
                          MakeArraySpec(name, array.dtype, array.shape));
  added.data = bytes.data() + array.data_at;
  if (array.fortran_order) {
    const auto copy = std::make_shared<std::string>(array.bytes, '\0');
    ToRowMajor(array, added.data, copy->data());
    added.data = copy->data();
    files->owners.push_back(copy);
  } else {
    files->owners.push_back(std::move(owner));
  }
  files->arrays.push_back(std::move(added));
  return absl::OkStatus();
}

absl::Status LoadNpy(const std::string& path, LoadedFiles* files) {
  CKPTDB_ASSIGN_OR_RETURN(SharedFile file, MappedFile::Open(path));
  const std::string stem = std::filesystem::path(path).stem().string();
  return AddNpy(UnescapeName(stem), file->bytes(), file, files);
}

absl::Status LoadNpzMember(const SharedFile& file, const ZipMember& member,
                           LoadedFiles* files) {
  absl::string_view name = member.name;
  if (!absl::ConsumeSuffix(&name, ".npy")) {
    return absl::InvalidArgumentError("is not a .npy member");
  }
  const std::string array = UnescapeName(name);
  if (member.deflated) {
    CKPTDB_ASSIGN_OR_RETURN(SharedFile inflated, Inflated(*file, member));
    return AddNpy(array, inflated->bytes(), inflated, files);
  }
  AddZipCheck(file, member, files);
  return AddNpy(array, file->bytes().substr(member.data_at, member.bytes), file,
                files);
}

absl::Status LoadNpz(const std::string& path, LoadedFiles* files) {
  CKPTDB_ASSIGN_OR_RETURN(const SharedFile file, MappedFile::Open(path));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<ZipMember> members,
                          ParseZip(file->bytes()));
  for (const ZipMember& member : members) {
    const absl::Status loaded = LoadNpzMember(file, member, files);
    if (!loaded.ok()) {
      return InFile(absl::StrCat("member \"", Printable(member.name), "\""),
                    loaded);
    }
  }
  return absl::OkStatus();
}

absl::Status LoadSafetensors(const std::string& path, LoadedFiles* files) {
  CKPTDB_ASSIGN_OR_RETURN(const SharedFile file, MappedFile::Open(path));
  CKPTDB_ASSIGN_OR_RETURN(Safetensors parsed, ParseSafetensors(file->bytes()));
  for (FileArray& array : parsed.arrays) {
    files->arrays.push_back(std::move(array));
  }
  files->owners.push_back(file);
  files->AddMetadata(std::filesystem::path(path).filename().string(),
                     parsed.metadata);
  return absl::OkStatus();
}

// The index and the files must name the same arrays.
absl::Status LoadSafetensorsIndex(const std::string& path, LoadedFiles* files) {
  CKPTDB_ASSIGN_OR_RETURN(const SharedFile file, MappedFile::Open(path));
  CKPTDB_ASSIGN_OR_RETURN(const SafetensorsIndex index,
                          ParseSafetensorsIndex(file->bytes()));
  std::map<std::string, size_t> expected;  // arrays by file
  for (const auto& [name, shard] : index.files) ++expected[shard];
  if (expected.empty()) {
    return absl::InvalidArgumentError(
        "\"weight_map\" of the index names no array: nothing to import");
  }
  const std::filesystem::path folder =
      std::filesystem::path(path).parent_path();
  for (const auto& [shard, count] : expected) {
    CKPTDB_RETURN_IF_ERROR(CheckInside(folder.string(), shard));
    const size_t first = files->arrays.size();
    const std::string shard_path = (folder / shard).string();
    CKPTDB_RETURN_IF_ERROR(
        InFile(shard_path, LoadSafetensors(shard_path, files)));
    for (size_t i = first; i < files->arrays.size(); ++i) {
      const std::string& name = files->arrays[i].spec.name;
      const auto found = index.files.find(name);
      if (found == index.files.end() || found->second != shard) {
        return absl::InvalidArgumentError(absl::StrCat(
            "\"", name, "\" is in ", shard, ", but the index does not say so"));
      }
    }
    if (files->arrays.size() - first != count) {
      return absl::DataLossError(
          absl::StrCat(shard, " has ", files->arrays.size() - first,
                       " arrays; the index names ", count));
    }
  }
  files->AddMetadata(std::filesystem::path(path).filename().string(),
                     index.metadata);
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadedFiles::Check(const Poll& poll) const {
  for (const auto& check : checks) CKPTDB_RETURN_IF_ERROR(check(poll));
  return absl::OkStatus();
}

absl::Status LoadedFiles::AddBlob(const std::string& name, std::string bytes) {
  if (blobs.emplace(name, std::move(bytes)).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("two blobs would have the name \"", Printable(name),
                   "\"; import the files as separate steps"));
}

void LoadedFiles::AddMetadata(const std::string& file,
                              const std::map<std::string, std::string>& more) {
  for (const auto& [key, value] : more) {
    const auto [found, added] = metadata.emplace(key, value);
    if (added || found->second == value) continue;
    std::string longer = absl::StrCat(file, "/", key);
    while (!metadata.emplace(longer, value).second) longer += '+';
  }
}

absl::Status LoadFile(const std::string& path, LoadedFiles* files) {
  const std::pair<absl::string_view,
                  absl::Status (*)(const std::string&, LoadedFiles*)>
      formats[] = {{kSafetensorsIndexSuffix, LoadSafetensorsIndex},
                   {".safetensors", LoadSafetensors},
                   {".npy", LoadNpy},
                   {".npz", LoadNpz},
                   {".pt", LoadTorch},
                   {".pth", LoadTorch},
                   {".bin", LoadTorch},
                   {".ckpt", LoadTorch}};
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    errno = error ? error.value() : ENOENT;
    return FileError("open", path);
  }
  if (std::filesystem::is_directory(path, error)) {
    return InFile(path, LoadRecis(path, files));
  }
  for (const auto& [suffix, load] : formats) {
    if (absl::EndsWith(path, suffix)) return InFile(path, load(path, files));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": the name has no known ending; expected .safetensors, "
                   ".safetensors.index.json, .npy, .npz, .pt, .pth, .bin, "
                   ".ckpt or a folder of RecIS"));
}

}  // namespace ckptdb::tool
