// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "bench/disk.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

struct Piece {
  char* data = nullptr;
  size_t bytes = 0;
  int file = 0;
  off_t offset = 0;
};

std::vector<Piece> CutIntoPieces(absl::Span<const Memory> payload, int files) {
  std::vector<Piece> pieces;
  for (const Memory& memory : payload) {
    for (size_t at = 0; at < memory.bytes; at += kPieceBytes) {
      const size_t left = memory.bytes - at;
      const size_t whole = (left + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
      pieces.push_back({memory.data + at, std::min(whole, kPieceBytes)});
    }
  }
  std::vector<off_t> ends(static_cast<size_t>(files), 0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t file = i * ends.size() / pieces.size();
    pieces[i].file = static_cast<int>(file);
    pieces[i].offset = ends[file];
    ends[file] += static_cast<off_t>(pieces[i].bytes);
  }
  return pieces;
}

std::string FilePath(const std::string& folder, int file) {
  return absl::StrCat(folder, "/raw.", file);
}

// Moves a piece with `call`, pwrite or pread, until all of it is moved.
template <typename Call>
absl::Status Move(const OpenFile& file, const Piece& piece, const Call& call) {
  for (size_t done = 0; done < piece.bytes;) {
    const ssize_t moved = call(file.fd(), piece.data + done, piece.bytes - done,
                               piece.offset + static_cast<off_t>(done));
    if (moved <= 0) return ErrnoError("read or write", file.path());
    done += static_cast<size_t>(moved);
  }
  return absl::OkStatus();
}

// Calls `work` with the part of `pieces` of each of `threads` threads.
absl::Status InThreads(
    int threads, absl::Span<const Piece> pieces,
    const std::function<absl::Status(absl::Span<const Piece>)>& work) {
  const auto parts = static_cast<size_t>(threads);
  // The same cut as CutIntoPieces makes for as many files.
  const auto begin = [&](size_t part) {
    return (part * pieces.size() + parts - 1) / parts;
  };
  std::vector<absl::Status> statuses(parts);
  std::vector<std::thread> running;
  for (size_t t = 0; t < parts; ++t) {
    running.emplace_back([&, t] {
      statuses[t] = work(pieces.subspan(begin(t), begin(t + 1) - begin(t)));
    });
  }
  for (std::thread& thread : running) thread.join();
  for (const absl::Status& status : statuses) CKPTDB_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::Status WritePieces(const std::string& folder, int flags,
                         absl::Span<const Piece> pieces) {
  if (pieces.empty()) return absl::OkStatus();
  const OpenFile file(FilePath(folder, pieces.front().file),
                      O_WRONLY | O_CREAT | O_TRUNC | flags);
  CKPTDB_RETURN_IF_ERROR(file.opened());
  for (const Piece& piece : pieces) {
    CKPTDB_RETURN_IF_ERROR(Move(file, piece, pwrite));
  }
  return file.Sync();
}

absl::Status ReadPieces(const std::string& folder, int flags,
                        absl::Span<const Piece> pieces) {
  while (!pieces.empty()) {
    const int number = pieces.front().file;
    const OpenFile file(FilePath(folder, number), O_RDONLY | flags);
    CKPTDB_RETURN_IF_ERROR(file.opened());
    if ((flags & O_DIRECT) == 0) {
      posix_fadvise(file.fd(), 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    for (; !pieces.empty() && pieces.front().file == number;
         pieces.remove_prefix(1)) {
      CKPTDB_RETURN_IF_ERROR(Move(file, pieces.front(), pread));
    }
  }
  return absl::OkStatus();
}

int Flags(const RawVariant& variant) { return variant.direct ? O_DIRECT : 0; }

bool HasDirectWrites(const std::string& folder) {
  const std::string path = folder + "/probe";
  const bool has = OpenFile(path, O_WRONLY | O_CREAT | O_DIRECT).opened().ok();
  unlink(path.c_str());
  return has;
}

}  // namespace

std::string RawVariant::Name() const {
  return absl::StrCat(direct ? "direct" : "buffered", " x ", threads);
}

std::vector<RawVariant> RawVariants(const std::string& folder) {
  std::vector<RawVariant> variants = {{false, 2}, {false, 4}};
  if (HasDirectWrites(folder)) {
    variants.push_back({true, 2});
    variants.push_back({true, 4});
  }
  return variants;
}

absl::Status RawWrite(const std::string& folder,
                      absl::Span<const Memory> payload,
                      const RawVariant& variant) {
  const std::vector<Piece> pieces = CutIntoPieces(payload, variant.threads);
  CKPTDB_RETURN_IF_ERROR(
      InThreads(variant.threads, pieces, [&](absl::Span<const Piece> part) {
        return WritePieces(folder, Flags(variant), part);
      }));
  const OpenFile parent(folder, O_RDONLY | O_DIRECTORY);
  CKPTDB_RETURN_IF_ERROR(parent.opened());
  return parent.Sync();
}

absl::Status RawRead(const std::string& folder,
                     absl::Span<const Memory> payload, int files,
                     const RawVariant& variant) {
  const std::vector<Piece> pieces = CutIntoPieces(payload, files);
  return InThreads(variant.threads, pieces, [&](absl::Span<const Piece> part) {
    return ReadPieces(folder, Flags(variant), part);
  });
}

}  // namespace ckptdb::bench
