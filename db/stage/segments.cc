// SPDX-License-Identifier: Apache-2.0
#include "db/stage/segments.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/base/huge_page.h"
#include "db/disk/direct_write_file.h"
#include "db/disk/files.h"
#include "db/disk/rocks_status.h"
#include "db/meta/borrow_cost.h"
#include "db/rocks/rocks_options.h"
#include "schema/bytes/limits.h"
#include "schema/bytes/page.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

constexpr uint64_t kSmallestSegment = uint64_t{64} << 20;
// One segment per worker if there are enough bytes: each small file costs its
// syncs, and one large file makes the other workers wait.
uint64_t TargetBytes(uint64_t bytes, int threads) {
  const uint64_t workers = static_cast<uint64_t>(std::max(threads, 1));
  return std::clamp(bytes / workers + 1, kSmallestSegment, kSegmentBytes);
}

// Cuts the entries of all items, in key order, into segments of about a target
// size. A segment is a range of keys, so files do not overlap; overlapping
// files would land in level 0.
//
// Held entries come last and have segments of their own, so that all workers
// write the other entries first: the training waits for those.
class Cutter {
 public:
  Cutter(uint64_t target_bytes, uint64_t held_target_bytes)
      : target_bytes_(target_bytes), held_target_bytes_(held_target_bytes) {}

  void Add(Stream* stream) {
    AddEntries(stream, 0, stream->first_held());
    if (stream->first_held() == stream->entries()) return;
    if (!std::exchange(holds_, true)) {
      if (bytes_ > 0) Cut();
      target_bytes_ = held_target_bytes_;
    }
    AddEntries(stream, stream->first_held(), stream->entries());
  }
  // Begins a new segment if `item` should not share a file with those before.
  void Border(const Item& before, const Item& item, uint64_t item_bytes,
              uint64_t tensor_bytes) {
    if (bytes_ > 0 &&
        BeginsFile(before, bytes_, item, item_bytes, tensor_bytes)) {
      Cut();
    }
  }
  std::vector<Segment> Finish() {
    if (!segment_.empty()) Cut();
    return std::move(segments_);
  }

 private:
  void AddEntries(Stream* stream, uint64_t at, uint64_t end) {
    while (at < end) {
      const uint64_t room = target_bytes_ - bytes_;
      const bool rest = stream->BytesOf(at, end) <= room;
      const uint64_t next = rest ? end : at + room / stream->entry_bytes();
      if (next > at) segment_.push_back({stream, at, next});
      bytes_ += stream->BytesOf(at, next);
      at = next;
      if (at < end) Cut();
    }
  }
  void Cut() {
    segments_.push_back(std::move(segment_));
    segment_.clear();
    bytes_ = 0;
  }

  uint64_t target_bytes_;
  const uint64_t held_target_bytes_;
  bool holds_ = false;  // the entries being added are held
  std::vector<Segment> segments_;
  Segment segment_;
  uint64_t bytes_ = 0;
};

bool HasSmallEntries(const Segment& segment) {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  for (const Piece& piece : segment) {
    entries += piece.end - piece.begin;
    bytes += piece.stream->BytesOf(piece.begin, piece.end);
  }
  return AreSmallEntries(bytes, entries);
}

}  // namespace

bool AreSmallEntries(uint64_t bytes, uint64_t entries) {
  constexpr uint64_t kSmallBytes = uint64_t{8} << 10;
  return bytes < entries * kSmallBytes;
}

bool HoldsEntries(const Segment& segment) {
  return std::ranges::any_of(segment, [](const Piece& piece) {
    return piece.stream->IsHeld(piece.begin);
  });
}

std::vector<Segment> CutSegments(const std::vector<StagedItem>& items,
                                 int threads) {
  uint64_t bytes = 0;
  uint64_t held = 0;
  uint64_t tensor_bytes = 0;
  for (const StagedItem& staged : items) {
    if (staged.reused) continue;
    if (staged.item.kind == Item::Kind::kTensor) {
      tensor_bytes += staged.item.raw_bytes;
    }
    for (const auto& stream : staged.streams) {
      bytes += stream->BytesOf(0, stream->first_held());
      held += stream->BytesOf(stream->first_held(), stream->entries());
    }
  }
  Cutter cutter(TargetBytes(bytes, threads), TargetBytes(held, threads));
  const Item* before = nullptr;
  for (const StagedItem& staged : items) {
    if (before != nullptr) {
      cutter.Border(*before, staged.item, staged.raw_bytes_to_write(),
                    tensor_bytes);
    }
    before = &staged.item;
    if (staged.reused) continue;
    for (const auto& stream : staged.streams) cutter.Add(stream.get());
  }
  return cutter.Finish();
}

std::unique_ptr<rocksdb::SstFileWriter> NewSegmentWriter(
    const SegmentWriterOptions& options) {
  rocksdb::EnvOptions file_options;
  file_options.use_direct_writes = options.direct_writes;
  file_options.bytes_per_sync = options.direct_writes ? 0 : uint64_t{4} << 20;
  rocksdb::Options writer =
      FileWriterOptions(options.env, options.small_entries);
  if (options.buffer_bytes > 0) {
    writer.writable_file_max_buffer_size = options.buffer_bytes;
  }
  // This buffer size tells the file system to write the file in huge pages
  // (GuardedFileSystem::NewWritableFile).
  if (options.direct_writes &&
      writer.writable_file_max_buffer_size >= kHugePageBytes) {
    writer.writable_file_max_buffer_size = kGatheredBytes;
  }
  file_options.writable_file_max_buffer_size =
      writer.writable_file_max_buffer_size;
  return std::make_unique<rocksdb::SstFileWriter>(
      file_options, writer, /*column_family=*/nullptr,
      /*invalidate_page_cache=*/false);
}

rocksdb::Status FinishSegment(std::unique_ptr<rocksdb::SstFileWriter>* writer,
                              rocksdb::ExternalSstFileInfo* file) {
  try {
    return (*writer)->Finish(file);
  } catch (...) {
    static_cast<void>(writer->release());
    throw;
  }
}

// Tries to open a file for direct writes, which fails if the file system does
// not support them.
absl::StatusOr<bool> SupportsDirectWrites(rocksdb::FileSystem* files,
                                          const std::string& folder) {
  const std::string path = folder + "/direct";
  rocksdb::FileOptions file_options;
  file_options.use_direct_writes = true;
  std::unique_ptr<rocksdb::FSWritableFile> file;
  const bool direct =
      files->NewWritableFile(path, file_options, &file, nullptr).ok();
  file.reset();
  CKPTDB_RETURN_IF_ERROR(RemoveFile(files, path));
  return direct;
}

absl::StatusOr<internal::StagedFile> WriteSegment(
    const SegmentWriterOptions& options, const Segment& segment,
    const std::string& path) {
  SegmentWriterOptions writing = options;
  writing.small_entries = HasSmallEntries(segment);
  auto writer = NewSegmentWriter(writing);
  const std::string context = absl::StrCat("writing \"", path, "\"");
  CKPTDB_RETURN_IF_ERROR(FromRocks(writer->Open(path), context));
  PageBuilder page;
  std::string key;
  for (const Piece& piece : segment) {
    for (uint64_t i = piece.begin; i < piece.end; ++i) {
      if (options.check) CKPTDB_RETURN_IF_ERROR(options.check());
      // One page and one key serve all entries, so that their memory is reused.
      CKPTDB_RETURN_IF_ERROR(piece.stream->Make(i, &key, &page));
      if (options.on_made) {
        CKPTDB_RETURN_IF_ERROR(options.on_made(*piece.stream, i));
      }
      CKPTDB_RETURN_IF_ERROR(
          FromRocks(writer->Put(key, ToSlice(page.entry())), context));
    }
  }
  rocksdb::ExternalSstFileInfo file;
  // Finish syncs the file. Its name need not be durable, because no save
  // outlives its owner's process.
  CKPTDB_RETURN_IF_ERROR(FromRocks(FinishSegment(&writer, &file), context));
  return internal::StagedFile{path, file.file_size, file.num_entries};
}

}  // namespace ckptdb::internal
