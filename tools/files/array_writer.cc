// SPDX-License-Identifier: Apache-2.0
#include "tools/files/array_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "schema/status.h"
#include "tools/files/file_name.h"
#include "tools/files/npy.h"
#include "tools/files/safetensors.h"
#include "tools/files/torch_pickle.h"
#include "tools/files/zip.h"

namespace ckptdb::tool {
namespace {

// Where the data of an array is.
struct Place {
  OutputFile* file = nullptr;
  uint64_t at = 0;
  std::string header = {};  // before the data, written with its first byte
};

class PlacedWriter : public ArrayWriter {
 public:
  explicit PlacedWriter(std::vector<Place> places)
      : places_(std::move(places)) {}
  absl::Status Write(size_t array, uint64_t at,
                     absl::string_view bytes) override {
    const Place& place = places_[array];
    if (at == 0 && !place.header.empty() && !bytes.empty()) {
      CKPTDB_RETURN_IF_ERROR(
          place.file->Write(place.at - place.header.size(), place.header));
    }
    return place.file->Write(place.at + at, bytes);
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const std::vector<Place> places_;
};

// An archive with uncompressed members. Each consists of a head, which is known
// from the start, and an array, which the first members lack.
class ArchiveWriter : public ArrayWriter {
 public:
  // Call this for each member, then CreateFile.
  void AddMember(std::string name, std::string head, uint64_t array_bytes) {
    ZipMember member;
    member.name = std::move(name);
    member.header_at = end_at_;
    member.bytes = head.size() + array_bytes;
    member.stored_bytes = member.bytes;
    member.data_at = end_at_ + ZipHeader(member).size();
    end_at_ = member.data_at + member.bytes;
    members_.push_back(std::move(member));
    heads_.push_back(std::move(head));
  }
  // The end of the archive has a known size, so that the file does too.
  absl::Status CreateFile(OutputFolder* folder, const std::string& name,
                          size_t first_array) {
    first_array_ = first_array;
    crcs_ = std::vector<PieceCrc>(members_.size());
    CKPTDB_ASSIGN_OR_RETURN(
        file_,
        folder->Create(name, end_at_ + ZipEnd(members_, end_at_).size()));
    return absl::OkStatus();
  }
  absl::Status Write(size_t array, uint64_t at,
                     absl::string_view bytes) override {
    const size_t i = first_array_ + array;
    const uint64_t in_member = heads_[i].size() + at;
    crcs_[i].Add(in_member, bytes);
    return file_->Write(members_[i].data_at + in_member, bytes);
  }
  // A header has its member's CRC.
  absl::Status Finish() override {
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!heads_[i].empty()) crcs_[i].Add(0, heads_[i]);
      members_[i].crc = crcs_[i].Value();
      CKPTDB_RETURN_IF_ERROR(
          file_->Write(members_[i].header_at,
                       absl::StrCat(ZipHeader(members_[i]), heads_[i])));
    }
    return file_->Write(end_at_, ZipEnd(members_, end_at_));
  }

 private:
  std::vector<ZipMember> members_;
  std::vector<std::string> heads_;
  std::vector<PieceCrc> crcs_;
  size_t first_array_ = 0;
  uint64_t end_at_ = 0;
  OutputFile* file_ = nullptr;
};

// Divides arrays into files of at most `shard_bytes`.
std::vector<std::vector<size_t>> Shards(absl::Span<const ArraySpec> arrays,
                                        uint64_t shard_bytes) {
  std::vector<std::vector<size_t>> shards(1);
  uint64_t bytes = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!shards.back().empty() &&
        (bytes > shard_bytes || arrays[i].bytes > shard_bytes - bytes)) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(i);
    bytes += arrays[i].bytes;
  }
  return shards;
}

// Wide elements first, so that all are aligned in the file.
void SortByElement(const std::vector<ArraySpec>& arrays,
                   std::vector<size_t>* order) {
  std::stable_sort(order->begin(), order->end(), [&](size_t a, size_t b) {
    return DTypeBytes(arrays[a].dtype) > DTypeBytes(arrays[b].dtype);
  });
}

absl::Status WriteIndex(OutputFolder* folder,
                        const std::vector<ArraySpec>& arrays,
                        const std::vector<SafetensorsFile>& files) {
  std::map<std::string, std::string> names;
  uint64_t bytes = 0;
  for (const SafetensorsFile& file : files) {
    for (const size_t i : file.arrays) {
      names[arrays[i].name] = file.name;
      bytes += arrays[i].bytes;
    }
  }
  const std::string json = SafetensorsIndexJson(names, bytes);
  CKPTDB_ASSIGN_OR_RETURN(
      OutputFile * index,
      folder->Create(absl::StrCat("model", kSafetensorsIndexSuffix),
                     json.size()));
  return index->Write(0, json);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayWriter>> NewNpyWriter(
    OutputFolder* folder, const std::vector<ArraySpec>& arrays) {
  std::vector<Place> places;
  for (const ArraySpec& array : arrays) {
    std::string header = NpyHeader(array.dtype, array.shape);
    CKPTDB_ASSIGN_OR_RETURN(OutputFile * file,
                            folder->Create(EscapeFileName(array.name) + ".npy",
                                           header.size() + array.bytes));
    if (array.bytes == 0) CKPTDB_RETURN_IF_ERROR(file->Write(0, header));
    const uint64_t at = header.size();
    places.push_back({file, at, std::move(header)});
  }
  return std::make_unique<PlacedWriter>(std::move(places));
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> NewNpzWriter(
    OutputFolder* folder, const std::string& file,
    const std::vector<ArraySpec>& arrays) {
  auto writer = std::make_unique<ArchiveWriter>();
  for (const ArraySpec& array : arrays) {
    writer->AddMember(EscapeMemberName(array.name) + ".npy",
                      NpyHeader(array.dtype, array.shape), array.bytes);
  }
  CKPTDB_RETURN_IF_ERROR(writer->CreateFile(folder, file, 0));
  return writer;
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> NewTorchWriter(
    OutputFolder* folder, const std::string& file,
    const std::vector<ArraySpec>& arrays) {
  std::vector<TorchTensor> tensors;
  for (const ArraySpec& array : arrays) {
    TorchTensor tensor;
    tensor.name = array.name;
    tensor.storage = absl::StrCat(tensors.size());
    tensor.storage_bytes = array.bytes;
    tensor.dtype = array.dtype;
    tensor.shape = array.shape;
    tensor.strides.resize(array.shape.size());
    int64_t stride = 1;
    for (size_t i = array.shape.size(); i-- > 0;) {
      tensor.strides[i] = stride;
      stride *= std::max<int64_t>(1, array.shape[i]);
    }
    tensors.push_back(std::move(tensor));
  }
  auto writer = std::make_unique<ArchiveWriter>();
  const std::pair<const char*, std::string> heads[] = {
      {"archive/data.pkl", MakeTorchPickle(tensors)},
      {"archive/byteorder", "little"},
      {"archive/version", "3\n"}};
  for (const auto& [name, head] : heads) writer->AddMember(name, head, 0);
  for (size_t i = 0; i < arrays.size(); ++i) {
    writer->AddMember(absl::StrCat("archive/data/", i), "", arrays[i].bytes);
  }
  CKPTDB_RETURN_IF_ERROR(writer->CreateFile(folder, file, std::size(heads)));
  return writer;
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> NewSafetensorsFilesWriter(
    OutputFolder* folder, const std::vector<ArraySpec>& arrays,
    const std::vector<SafetensorsFile>& files,
    const std::map<std::string, std::string>& metadata) {
  for (const ArraySpec& array : arrays) {
    if (array.name != kSafetensorsMetadataKey) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a file of safetensors cannot contain an array \"", array.name,
        "\", because the format reserves this name; export it with --npz or "
        "--npy, or the others by a GLOB"));
  }
  std::vector<Place> places(arrays.size());
  for (const SafetensorsFile& file : files) {
    std::vector<ArraySpec> specs;
    uint64_t bytes = 0;
    for (const size_t i : file.arrays) {
      specs.push_back(arrays[i]);
      bytes += arrays[i].bytes;
    }
    const std::string header = SafetensorsHeader(specs, metadata);
    CKPTDB_ASSIGN_OR_RETURN(OutputFile * output,
                            folder->Create(file.name, header.size() + bytes));
    uint64_t at = header.size();
    for (const size_t i : file.arrays) {
      places[i] = {output, at, {}};
      at += arrays[i].bytes;
    }
    CKPTDB_RETURN_IF_ERROR(output->Write(0, header));
  }
  return std::make_unique<PlacedWriter>(std::move(places));
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> NewSafetensorsWriter(
    OutputFolder* folder, const std::vector<ArraySpec>& arrays,
    const std::map<std::string, std::string>& metadata, uint64_t shard_bytes) {
  std::vector<std::vector<size_t>> shards = Shards(arrays, shard_bytes);
  std::vector<SafetensorsFile> files;
  for (std::vector<size_t>& shard : shards) {
    SortByElement(arrays, &shard);
    const std::string number =
        shards.size() == 1
            ? ""
            : absl::StrFormat("-%05d-of-%05d", files.size() + 1, shards.size());
    files.push_back(
        {absl::StrCat("model", number, ".safetensors"), std::move(shard)});
  }
  auto writer = NewSafetensorsFilesWriter(folder, arrays, files, metadata);
  if (writer.ok() && files.size() > 1) {
    CKPTDB_RETURN_IF_ERROR(WriteIndex(folder, arrays, files));
  }
  return writer;
}

}  // namespace ckptdb::tool
