// SPDX-License-Identifier: Apache-2.0
#include "tools/open_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "db/backup.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

// Names the newest of the backups in a folder that is not a store itself.
std::string BackupHint(const std::string& folder) {
  const absl::StatusOr<std::vector<Backup>> backups = ListBackups(folder);
  if (!backups.ok() || backups->empty()) return "";
  return absl::StrCat("; the newest backup in this folder is \"",
                      backups->back().path, "\"");
}

// A user who named no store has probably forgotten to, so the error says how to
// name one. For a damaged store, it names the command that looks further.
absl::Status OpenError(const Context& context, const absl::Status& status) {
  absl::Status placed = WithPlace(status, context.store);
  if (absl::IsDataLoss(status)) {
    return absl::DataLossError(absl::StrCat(
        placed.message(), "; \"ckptdb repair\" shows what can be saved"));
  }
  if (!absl::IsNotFound(status)) return placed;
  return absl::NotFoundError(
      absl::StrCat(placed.message(), BackupHint(context.store),
                   context.store_given ? "" : "; set --store or CKPTDB_STORE"));
}

// Warns if the user who owns the store's folder cannot read the files that the
// command writes. In a folder with S_ISGID they have the folder's group.
void WarnOfUser(const Context& context, const StoreOptions& options) {
  const bool by_group = (options.file_mode & S_IRGRP) != 0 &&
                        (options.directory_mode & S_ISGID) != 0;
  if (by_group || (options.file_mode & S_IROTH) != 0) return;
  struct stat found {};
  if (stat(context.store.c_str(), &found) != 0) return;
  if (found.st_uid == geteuid()) return;
  context.PrintError(absl::PermissionDeniedError(absl::StrCat(
      context.store, " belongs to user ", found.st_uid, ", and user ",
      geteuid(), " now owns the files that this command writes, such as ",
      "db/CURRENT, so a trainer of user ", found.st_uid,
      " cannot open the store; run \"chown -R --reference=", context.store, " ",
      context.store, "\", and the next time the command as that user")));
}

// Warns about damaged files. The store can be used without them, but the user
// should know.
void WarnOf(const std::vector<std::string>& bad_files, const Context& context) {
  for (const std::string& file : bad_files) {
    context.PrintError(absl::DataLossError(absl::StrCat(
        context.store, "/db/", file,
        " is damaged or missing; run \"ckptdb verify\" to find the steps that "
        "need it")));
  }
}

}  // namespace

// The store's owner may write even if it was made read-only.
void KeepModes(const std::string& store, StoreOptions* options) {
  constexpr mode_t kModeBits = 07777;
  struct stat found {};
  if (stat((store + "/db").c_str(), &found) == 0) {
    options->directory_mode = (found.st_mode & kModeBits) | S_IRWXU;
  }
  if (stat((store + "/db/CURRENT").c_str(), &found) == 0) {
    options->file_mode = (found.st_mode & kModeBits) | S_IRUSR | S_IWUSR;
  }
}

absl::StatusOr<std::unique_ptr<Reader>> OpenReader(const Context& context) {
  const ProgressLine progress(context.terminal,
                              absl::StrCat(context.command, ": opening"));
  auto reader = Reader::Open(context.store);
  if (!reader.ok()) return OpenError(context, ReadingStatus(reader.status()));
  WarnOf((*reader)->BadFiles(), context);
  const std::string parts = (*reader)->parts();
  if (!parts.empty()) {
    context.PrintError(absl::FailedPreconditionError(
        absl::StrCat(context.store, " was fetched with only ", parts)));
  }
  return reader;
}

absl::StatusOr<std::unique_ptr<Store>> OpenOwner(const Context& context,
                                                 bool create,
                                                 uint64_t reserve_bytes) {
  const ProgressLine progress(context.terminal,
                              absl::StrCat(context.command, ": opening"));
  StoreOptions options;
  options.create_if_missing = create;
  // A command that changes one thing must not remove others; commands that free
  // space call Sweep.
  options.background_sweep = false;
  options.reserve_bytes = reserve_bytes;
  KeepModes(context.store, &options);
  auto store = Store::Open(context.store, options);
  if (!store.ok()) {
    // Unavailable is also the code of some I/O errors. The store is busy (exit
    // code 4) only if the status names a holder.
    const bool held = store.status().GetPayload(kHolderPayload).has_value();
    // The library's message names an option that a command does not have.
    if (absl::IsNotFound(store.status())) {
      return OpenError(context, absl::NotFoundError(absl::StrCat(
                                    "no store at \"", context.store, "\"")));
    }
    return OpenError(context,
                     held ? store.status() : ReadingStatus(store.status()));
  }
  WarnOfUser(context, options);
  WarnOf((*store)->BadFiles(), context);
  for (const Usage::SkippedEntry& post : (*store)->skipped_posts()) {
    context.PrintError(absl::NotFoundError(
        absl::StrCat(post.path, " was ignored: ", post.reason)));
  }
  return store;
}

absl::StatusOr<std::unique_ptr<StepReader>> OpenStep(const Context& context,
                                                     Reader* reader,
                                                     const std::string& text) {
  const bool latest = text == kLatest;
  std::unique_ptr<StepReader> step;
  CKPTDB_RETURN_IF_ERROR(RetryLatest(latest, [&]() -> absl::Status {
    auto record = ResolveStep(*reader, text);
    if (!record.ok()) return WithPlace(record.status(), context.store);
    const int64_t number = record->version.step;
    auto opened = reader->OpenStep(number);
    // RetryLatest retries after Aborted.
    if (latest && IsGone(opened.status())) {
      return absl::AbortedError(opened.status().message());
    }
    if (!opened.ok()) {
      return WithPlace(ReadingStatus(opened.status()), StepName(number));
    }
    step = *std::move(opened);
    return absl::OkStatus();
  }));
  return step;
}

bool IsGone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsAborted(status);
}

absl::Status RetryLatest(bool latest, absl::FunctionRef<absl::Status()> read) {
  constexpr int kTries = 100;
  absl::Status status = read();
  for (int i = 1; latest && absl::IsAborted(status); ++i) {
    if (i == kTries) {
      return absl::AbortedError(absl::StrCat(
          "the latest step was retired while it was read, ", kTries,
          " times in a row; run the command again; the last error: ",
          status.message()));
    }
    status = read();
  }
  return status;
}

absl::Status CheckBecomesLatest(const Store& store, int64_t step,
                                absl::string_view flag) {
  const absl::StatusOr<StepRecord> latest = store.Latest();
  if (!latest.ok() || latest->version.step <= step) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(store.path(), ": the latest step is ", latest->version.step,
                   "; ", StepName(step),
                   " would take its place, and a training would resume from "
                   "it; ",
                   flag, " allows that"));
}

absl::Status WithPlace(const absl::Status& status, absl::string_view place) {
  if (status.ok() || absl::StrContains(status.message(), place)) return status;
  return {status.code(), absl::StrCat(place, ": ", status.message())};
}

absl::Status ReadingStatus(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  return absl::InternalError(status.message());
}

absl::Status WithoutReserveOption(const absl::Status& status) {
  constexpr absl::string_view kRemedy =
      ", or lower StoreOptions::reserve_bytes";
  if (!absl::IsResourceExhausted(status)) return status;
  absl::Status result(status.code(),
                      absl::StrReplaceAll(status.message(), {{kRemedy, ""}}));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

std::string StepName(int64_t step) { return absl::StrCat("step ", step); }

}  // namespace ckptdb::tool
