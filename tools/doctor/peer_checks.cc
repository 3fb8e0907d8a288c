// SPDX-License-Identifier: Apache-2.0
// The checks that need another process, on this or another host.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/status.h"
#include "tools/doctor/checks.h"
#include "tools/format.h"

namespace ckptdb::tool {
namespace {

// A cache returns stale bytes only some of the time, so these checks repeat.
constexpr int kRounds = 20;

using Seen = absl::StatusOr<std::string>;

// Returns UnexpectedError with the text `otherwise` unless the peer's answer is
// the expected one.
absl::Status ExpectAnswer(const CheckContext& context,
                          const std::string& request,
                          const std::string& expected,
                          const std::string& otherwise) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string answer, context.peer->Ask(request));
  return answer == expected ? absl::OkStatus() : UnexpectedError(otherwise);
}

Seen ExclusiveCreateByOthers(const CheckContext& context) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL;
  CKPTDB_RETURN_IF_ERROR(
      Open(context.files, "exclusive-ours", kFlags).status());
  CKPTDB_RETURN_IF_ERROR(ExpectAnswer(
      context, "create exclusive-ours", "exists",
      "the other process made a name with O_EXCL that existed already"));
  CKPTDB_RETURN_IF_ERROR(
      ExpectAnswer(context, "create exclusive-theirs", "made",
                   "the other process could not make a new name"));
  const auto again = Open(context.files, "exclusive-theirs", kFlags);
  if (again.ok()) {
    return UnexpectedError(
        "a name that the other process had made was made again with O_EXCL");
  }
  for (const char* name : {"exclusive-ours", "exclusive-theirs"}) {
    CKPTDB_RETURN_IF_ERROR(context.files->Unlink(name));
  }
  return "O_EXCL refuses a name that the other process has made";
}

Seen Lock(const CheckContext& context) {
  FileCalls* const files = context.files;
  CKPTDB_ASSIGN_OR_RETURN(OpenFile file, Open(files, "lock", O_RDWR | O_CREAT));
  CKPTDB_RETURN_IF_ERROR(
      ExpectAnswer(context, "lock lock", "locked",
                   "the other process could not lock a free file"));
  CKPTDB_ASSIGN_OR_RETURN(const bool both, files->Lock(file.get()));
  if (both) {
    return UnexpectedError(
        "a file that the other process has locked was locked again");
  }
  CKPTDB_RETURN_IF_ERROR(context.peer->Ask("unlock").status());
  CKPTDB_ASSIGN_OR_RETURN(const bool after, files->Lock(file.get()));
  if (!after) {
    return UnexpectedError("a lock stays after the other process released it");
  }
  CKPTDB_RETURN_IF_ERROR(
      ExpectAnswer(context, "lock lock", "refused",
                   "the other process locked a file that is locked here"));
  return "a lock that one process holds is refused to the other";
}

// Kills the peer, so it is the last check.
Seen LockOfTheDead(const CheckContext& context) {
  CKPTDB_RETURN_IF_ERROR(
      ExpectAnswer(context, "lock dead", "locked",
                   "the other process could not lock a free file"));
  context.peer->Kill();
  CKPTDB_ASSIGN_OR_RETURN(const OpenFile file,
                          Open(context.files, "dead", O_RDWR | O_CREAT));
  CKPTDB_ASSIGN_OR_RETURN(const bool locked, context.files->Lock(file.get()));
  if (!locked) {
    return UnexpectedError("a lock stays after its process was killed");
  }
  return "a lock ends with its process";
}

// Other hosts read the database while the owner has its MANIFEST open.
Seen SyncedBytes(const CheckContext& context) {
  FileCalls* const files = context.files;
  CKPTDB_ASSIGN_OR_RETURN(
      const OpenFile file,
      Open(files, "growing", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND));
  std::string all;
  int stale = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string more(10'000, static_cast<char>('a' + round));
    CKPTDB_RETURN_IF_ERROR(files->Write(file.get(), more));
    CKPTDB_RETURN_IF_ERROR(files->Sync(file.get()));
    all += more;
    CKPTDB_ASSIGN_OR_RETURN(const std::string digest,
                            context.peer->Ask("read growing"));
    if (digest != Digest(all)) ++stale;
  }
  if (stale == 0) return "synced bytes of an open file are read at once";
  return UnexpectedError(
      absl::StrCat("synced bytes of an open file were not read in ", stale,
                   " of ", kRounds, " openings"));
}

// Writes without fsync, because ranks on other hosts rely on close-to-open. Two
// names take turns, so that each is read again after a first read.
Seen ClosedBytes(const CheckContext& context) {
  int stale = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = absl::StrCat("closed-", round % 2);
    const std::string bytes(10'000 - static_cast<size_t>(round),
                            static_cast<char>('a' + round));
    CKPTDB_RETURN_IF_ERROR(WriteFile(context.files, name, bytes, false));
    CKPTDB_ASSIGN_OR_RETURN(const std::string digest,
                            context.peer->Ask(absl::StrCat("read ", name)));
    if (digest != Digest(bytes)) ++stale;
  }
  if (stale == 0) {
    return "the bytes of a closed file are read by the process that opens it "
           "next";
  }
  return UnexpectedError(
      absl::StrCat("closed files were read with old bytes in ", stale, " of ",
                   kRounds, " openings"));
}

// Asks until the digest is answered or the patience ends. Returns how long it
// took.
absl::StatusOr<absl::Duration> UntilRead(const CheckContext& context,
                                         const std::string& request,
                                         const std::string& digest) {
  const absl::Time start = absl::Now();
  while (absl::Now() - start < context.patience) {
    const auto answer = context.peer->Ask(request);
    if (EndsAllChecks(answer.status())) return answer.status();
    if (answer.ok() && *answer == digest) break;
  }
  return absl::Now() - start;
}

std::string StaleText(int stale, absl::Duration longest,
                      absl::Duration patience) {
  return absl::StrCat("a replaced file was old or unreadable in ", stale,
                      " of ", kRounds, " openings, for up to ",
                      FormatDuration(absl::ToInt64Microseconds(longest)),
                      longest < patience ? "" : " and more");
}

// The owner replaces CURRENT, OWNER and WATERMARK in this way. A read error
// counts as stale: a host may have a stale handle.
Seen ReplacedFile(const CheckContext& context) {
  constexpr int kMeasured = 2;  // each may take the whole patience
  int stale = 0;
  absl::Duration longest;
  for (int round = 0; round < kRounds; ++round) {
    const std::string bytes = absl::StrCat("version ", round);
    CKPTDB_RETURN_IF_ERROR(ReplaceFile(context.files, "replaced", bytes));
    const auto answer = context.peer->Ask("read replaced");
    if (EndsAllChecks(answer.status())) return answer.status();
    if (answer.ok() && *answer == Digest(bytes)) continue;
    if (++stale > kMeasured) continue;
    CKPTDB_ASSIGN_OR_RETURN(const absl::Duration time,
                            UntilRead(context, "read replaced", Digest(bytes)));
    longest = std::max(longest, time);
  }
  if (stale == 0) return "a replaced file is seen at once";
  return UnexpectedError(StaleText(stale, longest, context.patience));
}

// The owner finds leases by listing their folder.
Seen NewFile(const CheckContext& context) {
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = absl::StrCat("listed-", round);
    CKPTDB_RETURN_IF_ERROR(ReplaceFile(context.files, name, "listed"));
    CKPTDB_RETURN_IF_ERROR(ExpectAnswer(context, absl::StrCat("listed ", name),
                                        "yes",
                                        "a new file is not listed at once"));
    CKPTDB_RETURN_IF_ERROR(context.files->Unlink(name));
  }
  return "a new file is listed at once";
}

// The peer reads the file first, so that its host has cached it.
Seen RemovedFile(const CheckContext& context) {
  for (int round = 0; round < kRounds; ++round) {
    CKPTDB_RETURN_IF_ERROR(WriteFile(context.files, "removed", "r", true));
    CKPTDB_RETURN_IF_ERROR(context.peer->Ask("read removed").status());
    CKPTDB_RETURN_IF_ERROR(context.files->Unlink("removed"));
    const auto answer = context.peer->Ask("read removed");
    if (EndsAllChecks(answer.status())) return answer.status();
    if (answer.ok()) return UnexpectedError("a removed file is still read");
    if (!absl::IsNotFound(answer.status())) return answer.status();
    CKPTDB_RETURN_IF_ERROR(ExpectAnswer(context, "listed removed", "no",
                                        "a removed file is still listed"));
  }
  return "a removed file disappears at once";
}

// More than the peer reads and the kernel reads ahead.
std::string ManyBytes() { return std::string(size_t{4} << 20, 'm'); }

Seen OpenFileReplaced(const CheckContext& context) {
  const std::string bytes = ManyBytes();
  CKPTDB_RETURN_IF_ERROR(WriteFile(context.files, "held", bytes, true));
  CKPTDB_RETURN_IF_ERROR(context.peer->Ask("open held").status());
  CKPTDB_RETURN_IF_ERROR(ReplaceFile(context.files, "held", "new"));
  CKPTDB_RETURN_IF_ERROR(
      ExpectAnswer(context, "reread", Digest(bytes),
                   "a file that the other process has open changed by rename"));
  return "a file that the other process has open keeps its bytes";
}

Seen OpenFileRemoved(const CheckContext& context) {
  const std::string bytes = ManyBytes();
  CKPTDB_RETURN_IF_ERROR(WriteFile(context.files, "kept", bytes, true));
  CKPTDB_RETURN_IF_ERROR(context.peer->Ask("open kept").status());
  CKPTDB_RETURN_IF_ERROR(context.files->Unlink("kept"));
  CKPTDB_RETURN_IF_ERROR(
      ExpectAnswer(context, "reread", Digest(bytes),
                   "a removed file that the other process has open changed"));
  return "a removed file stays readable to the other process, which has it "
         "open";
}

// A lease lasts 60 s, and the owner and the reader use the clocks of their
// hosts. The time that the answer takes does not count as a difference.
Seen Clock(const CheckContext& context) {
  constexpr absl::Duration kLimit = absl::Seconds(10);
  const absl::Time start = absl::Now();
  CKPTDB_ASSIGN_OR_RETURN(const std::string answer, context.peer->Ask("clock"));
  const absl::Time end = absl::Now();
  int64_t micros = 0;
  if (!absl::SimpleAtoi(answer, &micros)) return UnexpectedError(answer);
  const absl::Time theirs = absl::FromUnixMicros(micros);
  absl::Duration apart;
  if (theirs < start) apart = start - theirs;
  if (theirs > end) apart = theirs - end;
  const std::string text =
      absl::StrCat("the clocks are ",
                   FormatDuration(absl::ToInt64Microseconds(apart)), " apart");
  if (apart > kLimit) return UnexpectedError(text);
  return text;
}

}  // namespace

const std::vector<Check>& PeerChecks() {
  static const auto* const kChecks = new std::vector<Check>{
      {"lock", Lock, CheckResult::kUnsafe,
       "two owners may open the store at once and lose steps; mount with "
       "locks, or make sure that there is only one owner"},
      {"exclusive_create_by_others", ExclusiveCreateByOthers,
       CheckResult::kUnsafe,
       "two processes may write to one temporary file and damage a step"},
      {"synced_bytes", SyncedBytes, CheckResult::kUnsafe,
       "readers see old steps or fail, and an owner that takes over may "
       "continue from an old state"},
      {"closed_bytes", ClosedBytes, CheckResult::kUnsafe,
       "the owner may publish data files of other hosts after misreading "
       "them"},
      {"replaced_file", ReplacedFile, CheckResult::kUnsafe,
       "readers see old steps or retry, and an owner that takes over in that "
       "time may continue from an old state and lose steps; disable caching of "
       "names and attributes in the mount options"},
      {"new_file", NewFile, CheckResult::kMissing,
       "the owner may overlook the lease of a reader that has just opened a "
       "step, whose reads then fail"},
      {"removed_file", RemovedFile, CheckResult::kMissing,
       "readers may have to retry opening the store after the owner has "
       "removed a file"},
      {"open_file_replaced", OpenFileReplaced, CheckResult::kMissing,
       "a reader may fail while the owner replaces a small file"},
      {"open_file_removed", OpenFileRemoved, CheckResult::kMissing,
       "a reader fails when the owner removes a file that the reader has open, "
       "such as a file of a step that it reads without a lease"},
      {"clock", Clock, CheckResult::kUnsafe,
       "the owner considers leases expired and removes data that a reader "
       "uses; synchronize the clocks, with NTP for example"},
      {"lock_of_the_dead", LockOfTheDead, CheckResult::kUnsafe,
       "a store stays locked after its owner was killed", "",
       /*kills_peer=*/true},
  };
  return *kChecks;
}

}  // namespace ckptdb::tool
