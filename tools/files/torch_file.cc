// SPDX-License-Identifier: Apache-2.0
#include "tools/files/torch_file.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/files/inflated.h"
#include "tools/files/mapped_file.h"
#include "tools/files/torch_pickle.h"
#include "tools/files/zip.h"

namespace ckptdb::tool {
namespace {

constexpr uint64_t kMaxPickleBytes = uint64_t{256} << 20;
// The limit for a tensor that is larger than its storage: an expanded tensor
// may have any number of elements.
constexpr uint64_t kMaxExpandedBytes = uint64_t{64} << 20;
// Copies of non-contiguous tensors may take this much in addition to twice the
// file's size.
constexpr uint64_t kMaxCopiedBytes = uint64_t{1} << 30;

// The members of an archive, by the names below its only folder.
class TorchArchive {
 public:
  static absl::StatusOr<TorchArchive> Open(const std::string& path) {
    TorchArchive archive;
    CKPTDB_ASSIGN_OR_RETURN(archive.file_, MappedFile::Open(path));
    const absl::string_view bytes = archive.file_->bytes();
    if (absl::StartsWith(bytes, "\x80\x02\x8a\x0a")) {
      return absl::InvalidArgumentError(
          "was saved by PyTorch before 1.6, whose format is not a zip "
          "archive; convert it with torch.save(torch.load(FILE), NEW) in "
          "PyTorch 1.6 or later");
    }
    CKPTDB_ASSIGN_OR_RETURN(std::vector<ZipMember> members, ParseZip(bytes));
    for (ZipMember& member : members) {
      const size_t slash = member.name.find('/');
      const std::string name =
          slash == std::string::npos ? "" : member.name.substr(slash + 1);
      archive.members_[name] = std::move(member);
    }
    return archive;
  }

  const MappedFile& file() const { return *file_; }
  bool Has(const std::string& name) const { return members_.contains(name); }

  absl::StatusOr<std::string> ReadText(const std::string& name) const {
    const auto found = members_.find(name);
    if (found == members_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is not a file of torch.save: it has no member \"", name, "\""));
    }
    if (found->second.bytes > kMaxPickleBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" has ", found->second.bytes,
                       " bytes; the limit is ", kMaxPickleBytes));
    }
    std::string text;
    text.reserve(found->second.bytes);
    CKPTDB_RETURN_IF_ERROR(ReadZipMember(
        file_->bytes(), found->second, [&text](absl::string_view piece) {
          text.append(piece.data(), piece.size());
          return absl::OkStatus();
        }));
    return text;
  }

  // Returns the bytes of a storage, which are checked later unless they are
  // deflated.
  absl::StatusOr<absl::string_view> Storage(const std::string& key,
                                            LoadedFiles* files) {
    const auto found = members_.find("data/" + key);
    if (found == members_.end()) {
      return absl::DataLossError(
          absl::StrCat("the storage \"", Printable(key), "\" is missing"));
    }
    const auto [storage, added] = storages_.emplace(key, absl::string_view());
    if (!added) return storage->second;
    const ZipMember& member = found->second;
    if (member.deflated) {
      CKPTDB_ASSIGN_OR_RETURN(const auto inflated, Inflated(*file_, member));
      files->owners.push_back(inflated);
      storage->second = inflated->bytes();
    } else {
      storage->second = file_->bytes().substr(member.data_at, member.bytes);
      AddZipCheck(file_, member, files);
    }
    return storage->second;
  }

  // Counts bytes that are copied to memory.
  absl::Status CheckCopied(uint64_t bytes) {
    const uint64_t limit = kMaxCopiedBytes + 2 * file_->bytes().size();
    if (bytes <= limit - copied_bytes_) {
      copied_bytes_ += bytes;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "its tensors with gaps, or that are transposed or expanded, take more "
        "than ",
        limit, " bytes of memory; save them with contiguous()"));
  }

  std::shared_ptr<const MappedFile> shared_file() const { return file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, ZipMember> members_;
  std::map<std::string, absl::string_view> storages_;
  uint64_t copied_bytes_ = 0;
};

// Copies elements of any strides to row-major order.
void Gather(const TorchTensor& tensor, const char* storage, char* to,
            uint64_t bytes) {
  const size_t element = DTypeBytes(tensor.dtype);
  Shape index(tensor.shape.size(), 0);
  int64_t at = tensor.offset;
  for (uint64_t done = 0; done < bytes; done += element) {
    std::memcpy(to + done, storage + static_cast<size_t>(at) * element,
                element);
    for (size_t i = index.size(); i-- > 0;) {
      at += tensor.strides[i];
      if (++index[i] < tensor.shape[i]) break;
      at -= tensor.strides[i] * tensor.shape[i];
      index[i] = 0;
    }
  }
}

absl::Status AddTensor(const TorchTensor& tensor, TorchArchive* archive,
                       LoadedFiles* files) {
  CKPTDB_ASSIGN_OR_RETURN(const absl::string_view storage,
                          archive->Storage(tensor.storage, files));
  if (storage.size() < tensor.storage_bytes) {
    return absl::DataLossError(absl::StrCat(
        "\"", Printable(tensor.name), "\": its storage has ", storage.size(),
        " bytes, but the pickle says ", tensor.storage_bytes));
  }
  FileArray array;
  CKPTDB_ASSIGN_OR_RETURN(
      array.spec, MakeArraySpec(tensor.name, tensor.dtype, tensor.shape));
  array.data = storage.data();
  if (array.spec.bytes > 0 && IsContiguous(tensor)) {
    array.data +=
        static_cast<uint64_t>(tensor.offset) * DTypeBytes(tensor.dtype);
  } else if (array.spec.bytes > 0) {
    if (array.spec.bytes > tensor.storage_bytes + kMaxExpandedBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", Printable(tensor.name), "\" expands ", tensor.storage_bytes,
          " bytes to ", array.spec.bytes, "; save it with contiguous()"));
    }
    CKPTDB_RETURN_IF_ERROR(archive->CheckCopied(array.spec.bytes));
    const auto copy = std::make_shared<std::string>(array.spec.bytes, '\0');
    Gather(tensor, storage.data(), copy->data(), array.spec.bytes);
    array.data = copy->data();
    files->owners.push_back(copy);
  }
  files->arrays.push_back(std::move(array));
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadTorch(const std::string& path, LoadedFiles* files) {
  CKPTDB_ASSIGN_OR_RETURN(TorchArchive archive, TorchArchive::Open(path));
  CKPTDB_ASSIGN_OR_RETURN(const std::string pickle,
                          archive.ReadText("data.pkl"));
  // Files saved before PyTorch 2.1 have no such member, and little-endian data.
  if (archive.Has("byteorder")) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string order,
                            archive.ReadText("byteorder"));
    if (order != "little") {
      return absl::InvalidArgumentError(
          absl::StrCat("its byte order is \"", Printable(order.substr(0, 16)),
                       "\"; expected \"little\""));
    }
  }
  const std::string stem = std::filesystem::path(path).stem().string();
  CKPTDB_ASSIGN_OR_RETURN(const TorchPickle parsed,
                          ParseTorchPickle(pickle, stem));
  for (const TorchTensor& tensor : parsed.tensors) {
    CKPTDB_RETURN_IF_ERROR(AddTensor(tensor, &archive, files));
  }
  files->owners.push_back(archive.shared_file());
  for (const auto& [name, bytes] : parsed.bytes) {
    CKPTDB_RETURN_IF_ERROR(files->AddBlob(name, bytes));
  }
  if (parsed.values.empty()) return absl::OkStatus();
  const std::string values = absl::StrJoin(
      parsed.values, ",", [](std::string* out, const auto& value) {
        absl::StrAppend(
            out,
            nlohmann::json(value.first)
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
            ":", value.second);
      });
  return files->AddBlob(stem + ".values", absl::StrCat("{", values, "}"));
}

}  // namespace ckptdb::tool
