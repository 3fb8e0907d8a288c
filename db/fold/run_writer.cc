// SPDX-License-Identifier: Apache-2.0
#include "db/fold/run_writer.h"

#include <algorithm>
#include <utility>

#include "schema/bytes/keys.h"
#include "schema/bytes/lossy.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {

RunWriter::RunWriter(const Item& table, const std::string& prefix, bool ids,
                     absl::Span<const size_t> slots, RunOutput* output)
    : table_(table), output_(output), first_slot_(ids ? 1 : 0) {
  if (ids) {
    AddStream(kIdSlot, sizeof(int64_t), sizeof(int64_t), table.codec, prefix);
  }
  for (const size_t i : slots) {
    const Slot& slot = table.slots[i];
    AddStream(static_cast<uint16_t>(i + 1), slot.row_bytes(),
              DTypeBytes(slot.dtype), slot.codec, prefix);
  }
}

void RunWriter::AddStream(uint16_t number, uint64_t row_bytes,
                          uint32_t element_bytes, Codec codec,
                          const std::string& prefix) {
  Stream& stream = streams_.emplace_back();
  stream.number = number;
  stream.prefix = prefix;
  AppendStream(Item::Run::kBase, number, &stream.prefix);
  stream.row_bytes = row_bytes;
  stream.element_bytes = element_bytes;
  stream.codec = codec;
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
    if (first_slot_ == 1) {
      streams_[0].page.append(
          reinterpret_cast<const char*>(batch.ids.data() + done),
          count * sizeof(int64_t));
    }
    for (size_t i = first_slot_; i < streams_.size(); ++i) {
      const uint64_t row_bytes = streams_[i].row_bytes;
      streams_[i].page.append(batch.slots[i - first_slot_] + done * row_bytes,
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

// A base run has no erased ids: the ids that the chain erased are simply
// missing.
absl::Status RunWriter::Erased(absl::Span<const int64_t>) {
  return absl::OkStatus();
}

// Writes a page of each stream. All streams are cut at the same row, so that
// the position of its first row is the key of each page.
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
  stream->page.copy(builder_.Reset(stream->page.size()), stream->page.size());
  // Values that a lossy codec would change are stored verbatim: a fold adds no
  // error to those from when the rows were saved.
  builder_.Finish(stream->codec, static_cast<uint32_t>(page_rows_),
                  stream->element_bytes, Rounding::kNone);
  stream->hashes.push_back(builder_.raw_hash());
  stored_bytes_ += builder_.entry().size();
  key_ = stream->prefix;
  AppendPosition(first_, &key_);
  return output_->Put(stream->number, key_, builder_.entry());
}

std::vector<uint64_t> RunWriter::Hashes() const {
  std::vector<uint64_t> all;
  // In key order, because the run's digest covers all hashes in that order.
  for (const Stream& stream : streams_) {
    all.insert(all.end(), stream.hashes.begin(), stream.hashes.end());
  }
  return all;
}

}  // namespace ckptdb::internal
