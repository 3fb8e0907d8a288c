#include "ckptdb/db/fold/run_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckptdb/db/disk/rocks_status.h"
#include "ckptdb/schema/bytes/keys.h"
#include "ckptdb/schema/bytes/lossy.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

RunWriter::RunWriter(const SegmentWriterOptions& options, const Item& table,
                     const std::string& prefix, const std::string& path)
    : options_(options), table_(table) {
  AddStream(kIdSlot, sizeof(int64_t), sizeof(int64_t), table.codec, prefix,
            path);
  for (size_t i = 0; i < table.slots.size(); ++i) {
    const Slot& slot = table.slots[i];
    AddStream(static_cast<uint16_t>(i + 1), slot.row_bytes(),
              DTypeBytes(slot.dtype), slot.codec, prefix, path);
  }
}

// One file for each stream: the keys of a stream are adjacent in the order of a
// run, and a page of every stream is complete at the same row.
void RunWriter::AddStream(uint16_t slot, uint64_t row_bytes,
                          uint32_t element_bytes, Codec codec,
                          const std::string& prefix, const std::string& path) {
  Stream& stream = streams_.emplace_back();
  stream.prefix = prefix;
  AppendStream(Item::Run::kBase, slot, &stream.prefix);
  stream.path = absl::StrCat(path, "-", slot, ".sst");
  stream.row_bytes = row_bytes;
  stream.element_bytes = element_bytes;
  stream.codec = codec;
  stream.page.reserve(table_.rows_per_page * row_bytes);
}

absl::Status RunWriter::Rows(const RowSink::Batch& batch) {
  for (size_t done = 0; done < batch.ids.size();) {
    // The key of a page is the position of its first row.
    if (page_rows_ == 0) {
      const int64_t id = batch.ids[done];
      first_ = {SliceOf(id, table_.slice_hash), static_cast<uint64_t>(id)};
    }
    const size_t count = std::min<size_t>(batch.ids.size() - done,
                                          table_.rows_per_page - page_rows_);
    streams_[0].page.append(
        reinterpret_cast<const char*>(batch.ids.data() + done),
        count * sizeof(int64_t));
    for (size_t i = 1; i < streams_.size(); ++i) {
      const uint64_t row_bytes = streams_[i].row_bytes;
      streams_[i].page.append(batch.slots[i - 1] + done * row_bytes,
                              count * row_bytes);
    }
    page_rows_ += count;
    done += count;
    if (page_rows_ == table_.rows_per_page) {
      CKPTDB_RETURN_IF_ERROR(FlushPage());
    }
  }
  return absl::OkStatus();
}

// A base run has no erased ids: what the chain erased is simply not in it.
absl::Status RunWriter::Erased(absl::Span<const int64_t>) {
  return absl::OkStatus();
}

// Writes a page of each stream. All streams are cut at the same row, so that
// the position of the first row is the key of all of them.
absl::Status RunWriter::FlushPage() {
  if (page_rows_ == 0) return absl::OkStatus();
  for (Stream& stream : streams_) {
    CKPTDB_RETURN_IF_ERROR(WritePage(&stream));
    stream.page.clear();
  }
  rows_ += page_rows_;
  page_rows_ = 0;
  return absl::OkStatus();
}

absl::Status RunWriter::WritePage(Stream* stream) {
  // The file is created with its first page, as a part without rows has none.
  if (stream->file == nullptr) {
    stream->file = NewSegmentWriter(options_);
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(stream->file->Open(stream->path),
                  absl::StrCat("writing \"", stream->path, "\"")));
  }
  stream->page.copy(builder_.Reset(stream->page.size()), stream->page.size());
  // Values that a lossy codec would change are kept as they are: a fold adds no
  // error to those that were made when the rows were saved.
  builder_.Finish(stream->codec, static_cast<uint32_t>(page_rows_),
                  stream->element_bytes, Rounding::kNone);
  stream->hashes.push_back(builder_.raw_hash());
  stored_bytes_ += builder_.entry().size();
  key_ = stream->prefix;
  AppendPosition(first_, &key_);
  return FromRocks(stream->file->Put(key_, ToSlice(builder_.entry())),
                   absl::StrCat("writing \"", stream->path, "\""));
}

absl::StatusOr<std::vector<internal::StagedFile>> RunWriter::Finish() {
  CKPTDB_RETURN_IF_ERROR(FlushPage());
  std::vector<internal::StagedFile> files;
  for (Stream& stream : streams_) {
    if (stream.file == nullptr) continue;
    rocksdb::ExternalSstFileInfo file;
    CKPTDB_RETURN_IF_ERROR(
        FromRocks(stream.file->Finish(&file),
                  absl::StrCat("writing \"", stream.path, "\"")));
    files.push_back({stream.path, file.file_size, file.num_entries});
    // The file is synced by Finish, before the note of its part names it.
    stream.file.reset();
  }
  return files;
}

std::vector<uint64_t> RunWriter::Hashes() const {
  std::vector<uint64_t> all;
  // In key order, as the digest of the run is that of all its hashes.
  for (const Stream& stream : streams_) {
    all.insert(all.end(), stream.hashes.begin(), stream.hashes.end());
  }
  return all;
}

}  // namespace ckptdb::internal
