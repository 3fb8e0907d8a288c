// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/peer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/status.h"
#include "tools/format.h"

namespace ckptdb::tool {
namespace {

// The bytes that `open` reads: enough for the host to begin reading the file,
// with most of it still to be read.
constexpr size_t kFirstBytes = 4096;

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace

std::string Digest(absl::string_view bytes) {
  // FNV-1a: the same in every process.
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return absl::StrCat(bytes.size(), ":", FormatHash(hash));
}

absl::StatusOr<std::string> PeerService::Do(const std::string& request) {
  const std::pair<std::string, std::string> words =
      absl::StrSplit(request, absl::MaxSplits(' ', 1));
  const auto& [word, name] = words;
  // The folder's name can be guessed, so another user may have created it;
  // requests must not reach outside it.
  if (absl::StrContains(name, '/')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request \"", request, "\" has a path; expected the name of a file"));
  }
  if (word == "host") return HostName();
  if (word == "clock") return absl::StrCat(absl::ToUnixMicros(absl::Now()));
  if (word == "create") return Create(name);
  if (word == "open") return OpenForLater(name);
  if (word == "reread") return Reread();
  if (word == "lock") return Lock(name);
  if (word == "listed") return IsListed(name);
  if (word == "time") return Time(name);
  if (word == "end") return "ended";
  if (word == "unlock") {
    locked_.Reset();
    return "unlocked";
  }
  if (word == "read") {
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(files_, name));
    return Digest(bytes);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown request \"", word,
                   "\"; run the same version of ckptdb on all hosts"));
}

absl::StatusOr<std::string> PeerService::Create(const std::string& name) {
  auto file = tool::Open(files_, name, O_WRONLY | O_CREAT | O_EXCL);
  if (file.ok()) return "made";
  if (absl::IsAlreadyExists(file.status())) return "exists";
  return file.status();
}

absl::StatusOr<std::string> PeerService::OpenForLater(const std::string& name) {
  CKPTDB_ASSIGN_OR_RETURN(open_, tool::Open(files_, name, O_RDONLY));
  CKPTDB_RETURN_IF_ERROR(files_->ReadAt(open_.get(), 0, kFirstBytes).status());
  return "opened";
}

absl::StatusOr<std::string> PeerService::Reread() {
  const OpenFile file = std::move(open_);
  open_ = OpenFile();
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(files_, file.get()));
  return Digest(bytes);
}

absl::StatusOr<std::string> PeerService::Lock(const std::string& name) {
  CKPTDB_ASSIGN_OR_RETURN(OpenFile file,
                          tool::Open(files_, name, O_RDWR | O_CREAT));
  CKPTDB_ASSIGN_OR_RETURN(const bool locked, files_->Lock(file.get()));
  if (!locked) return "refused";
  locked_ = std::move(file);
  return "locked";
}

absl::StatusOr<std::string> PeerService::IsListed(const std::string& name) {
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List());
  const bool listed =
      std::find(names.begin(), names.end(), name) != names.end();
  return listed ? "yes" : "no";
}

absl::StatusOr<std::string> PeerService::Time(const std::string& name) {
  const absl::Time start = absl::Now();
  CKPTDB_ASSIGN_OR_RETURN(const OpenFile file,
                          tool::Open(files_, name, O_RDONLY));
  // The bytes must come from the file system, and not from this host's cache.
  files_->DropCache(file.get());
  constexpr size_t kBlock = size_t{1} << 20;
  uint64_t bytes = 0;
  for (bool more = true; more;) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string block,
                            files_->ReadAt(file.get(), bytes, kBlock));
    bytes += block.size();
    more = block.size() == kBlock;
  }
  return absl::StrCat(bytes, " ",
                      absl::ToInt64Microseconds(absl::Now() - start));
}

std::string EncodeAnswer(const absl::StatusOr<std::string>& answer) {
  if (answer.ok()) return absl::StrCat("0 ", *answer);
  return absl::StrCat(static_cast<int>(answer.status().code()), " ",
                      absl::CEscape(answer.status().message()));
}

absl::StatusOr<std::string> DecodeAnswer(const std::string& line) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code)) {
    // An answer that cannot be decoded says nothing about the file system, so
    // it ends the checks.
    return absl::AbortedError(absl::StrCat("invalid answer \"", line, "\""));
  }
  if (code == 0) return parts.second;
  return absl::Status(static_cast<absl::StatusCode>(code), parts.second);
}

}  // namespace ckptdb::tool
