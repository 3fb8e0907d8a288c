// SPDX-License-Identifier: Apache-2.0
#include "db/quirks/table_tail.h"

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IOStatus;

// A block-based table of kTableFormatVersion and kTableChecksum ends with a
// footer: checksum type, handles of the metaindex and of the index, zeros up to
// 41 bytes, version:4, magic:8. Each block is followed by its compression type
// and the low half of the XXH64 of both.
constexpr uint64_t kFooterBytes = 53;
constexpr uint64_t kTrailerBytes = 5;
constexpr absl::string_view kFooterEnd(
    "\x05\0\0\0\xf7\xcf\xf4\x85\xb7\x41\xe2\x88", 12);
static_assert(kFooterEnd.front() == kTableFormatVersion);
// A larger size means that the handle is damaged, and the block is left to
// RocksDB.
constexpr uint64_t kMostBytes = uint64_t{1} << 20;
constexpr absl::string_view kProperties = "rocksdb.properties";

struct Handle {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Reads a number in groups of 7 bits, lowest first; the top bit of a byte means
// that more follow. Returns nothing if it does not end.
std::optional<uint64_t> TakeVarint(absl::string_view* bytes) {
  constexpr int kBits = 7;
  constexpr int kMostBits = 64;
  uint64_t value = 0;
  for (int shift = 0; shift < kMostBits && !bytes->empty(); shift += kBits) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::optional<Handle> TakeHandle(absl::string_view bytes) {
  const auto offset = TakeVarint(&bytes);
  const auto size = TakeVarint(&bytes);
  if (!offset.has_value() || !size.has_value()) return std::nullopt;
  return Handle{*offset, *size};
}

// Reads the end of a table. Leaves to RocksDB whatever cannot be read or found
// here, because its error is more specific.
class Tail {
 public:
  Tail(const rocksdb::FSRandomAccessFile& file, uint64_t file_bytes)
      : file_(file), file_bytes_(file_bytes) {}

  // RocksDB blames the MANIFEST for a table without one.
  bool HasFooter() {
    if (file_bytes_ < kFooterBytes) return false;
    footer_ = Read(file_bytes_ - kFooterBytes, kFooterBytes);
    if (!footer_.has_value()) return true;  // a failed read is RocksDB's
    return footer_->front() == static_cast<char>(kTableChecksum) &&
           absl::EndsWith(*footer_, kFooterEnd);
  }

  // Returns the handle of the properties, if it can be found.
  std::optional<Handle> FindProperties() {
    if (!footer_.has_value()) return std::nullopt;
    const auto metaindex = TakeHandle(absl::string_view(*footer_).substr(1));
    if (!metaindex.has_value()) return std::nullopt;
    const auto block = ReadBlock(*metaindex);
    if (!block.has_value() || !HasChecksum(*block)) return std::nullopt;
    // Keys of this block are not compressed; each is followed by its value.
    const size_t key = block->find(kProperties.data(), 0, kProperties.size());
    if (key == std::string::npos) return std::nullopt;
    return TakeHandle(
        absl::string_view(*block).substr(key + kProperties.size()));
  }

  // Returns the block with its trailer.
  std::optional<std::string> ReadBlock(const Handle& handle) {
    // This order of comparisons cannot overflow.
    if (handle.bytes > kMostBytes || handle.offset > file_bytes_ ||
        handle.bytes + kTrailerBytes > file_bytes_ - handle.offset) {
      return std::nullopt;
    }
    return Read(handle.offset, handle.bytes + kTrailerBytes);
  }

  static bool HasChecksum(const std::string& block) {
    constexpr size_t kChecksumBytes = sizeof(uint32_t);
    const size_t bytes = block.size() - kChecksumBytes;
    uint32_t stored = 0;
    std::memcpy(&stored, block.data() + bytes, kChecksumBytes);
    return static_cast<uint32_t>(XXH64(block.data(), bytes, 0)) == stored;
  }

 private:
  std::optional<std::string> Read(uint64_t offset, uint64_t bytes) {
    std::string memory(bytes, '\0');
    rocksdb::Slice result;
    const IOStatus status = file_.Read(offset, bytes, rocksdb::IOOptions(),
                                       &result, memory.data(), nullptr);
    if (!status.ok() || result.size() != bytes) return std::nullopt;
    if (result.data() != memory.data()) return result.ToString();
    return memory;
  }

  const rocksdb::FSRandomAccessFile& file_;
  const uint64_t file_bytes_;
  std::optional<std::string> footer_;
};

class SizedTable : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  SizedTable(std::string path, uint64_t file_bytes,
             std::unique_ptr<rocksdb::FSRandomAccessFile> file)
      : FSRandomAccessFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        file_bytes_(file_bytes) {}

  // RocksDB ignores this result, so the subsequent reads fail.
  IOStatus Prefetch(uint64_t offset, size_t bytes,
                    const rocksdb::IOOptions& options,
                    rocksdb::IODebugContext* debug) override {
    // The first Prefetch is at the end according to the MANIFEST (line 11 of
    // docs/rocksdb.md).
    if (wanted_bytes_ == 0) wanted_bytes_ = offset + bytes;
    return target()->Prefetch(offset, bytes, options, debug);
  }
  IOStatus Read(uint64_t offset, size_t bytes,
                const rocksdb::IOOptions& options, rocksdb::Slice* result,
                char* scratch, rocksdb::IODebugContext* debug) const override {
    if (wanted_bytes_ != 0 && wanted_bytes_ != file_bytes_) {
      return IOStatus::Corruption(
          absl::StrCat("the file has ", file_bytes_, " bytes, expected ",
                       wanted_bytes_),
          path_);
    }
    return target()->Read(offset, bytes, options, result, scratch, debug);
  }

 private:
  const std::string path_;
  const uint64_t file_bytes_;
  uint64_t wanted_bytes_ = 0;  // set before other threads use the file
};

}  // namespace

IOStatus CheckTableTail(const std::string& path,
                        const rocksdb::FSRandomAccessFile& file,
                        uint64_t file_bytes) {
  Tail tail(file, file_bytes);
  if (!tail.HasFooter()) {
    return IOStatus::Corruption("the file has no SST footer", path);
  }
  const std::optional<Handle> properties = tail.FindProperties();
  // Only the properties are checked here, because RocksDB parses them before
  // comparing their checksum (line 10 of docs/rocksdb.md).
  if (!properties.has_value()) return IOStatus::OK();
  const std::optional<std::string> block = tail.ReadBlock(*properties);
  if (!block.has_value() || Tail::HasChecksum(*block)) return IOStatus::OK();
  return IOStatus::Corruption("block checksum mismatch in the properties of",
                              path);
}

std::unique_ptr<rocksdb::FSRandomAccessFile> NewSizedTable(
    const std::string& path, uint64_t file_bytes,
    std::unique_ptr<rocksdb::FSRandomAccessFile> file) {
  return std::make_unique<SizedTable>(path, file_bytes, std::move(file));
}

}  // namespace ckptdb::internal
