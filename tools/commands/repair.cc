// SPDX-License-Identifier: Apache-2.0
// ckptdb repair: reports damage, and with --yes removes the damaged steps.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/damaged_steps.h"
#include "tools/files/file_error.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/sweep.h"

namespace ckptdb::tool {
namespace {

namespace fs = std::filesystem;

constexpr char kRepairNotes[] =
    "Reads everything and changes nothing, unless --yes is given. Then it\n"
    "writes a missing CURRENT anew, and removes the damaged steps, except\n"
    "pinned ones, and their data, so that the newest whole step is the "
    "latest.\nIf no step is whole, it removes nothing.\n"
    "Make a backup first: \"ckptdb backup DIR\".\n";

struct Findings {
  absl::Status opened;                  // OK, or why the store cannot be opened
  std::optional<std::string> manifest;  // what a missing CURRENT should name
  std::vector<std::string> bad_files;
  std::vector<ExaminedStep> steps;
  std::optional<int64_t> newest_whole;  // the newest step that is whole
  // Steps that are damaged, and steps that could not be read for another
  // reason.
  int64_t lost() const {
    return std::count_if(
        steps.begin(), steps.end(),
        [](const ExaminedStep& step) { return absl::IsDataLoss(step.status); });
  }
  int64_t unread() const {
    return std::count_if(
        steps.begin(), steps.end(), [](const ExaminedStep& step) {
          return !step.status.ok() && !absl::IsDataLoss(step.status);
        });
  }
  bool damaged() const {
    return !opened.ok() || !bad_files.empty() || lost() + unread() > 0;
  }
  // Whether --yes can change anything.
  bool repairable() const {
    if (!opened.ok()) return manifest.has_value();
    return newest_whole.has_value() &&
           std::any_of(
               steps.begin(), steps.end(), [](const ExaminedStep& step) {
                 return absl::IsDataLoss(step.status) && !step.record.pinned;
               });
  }
};

// Adds the files below db/ that an error about damage names.
void AddBadFiles(const absl::Status& status, std::set<std::string>* files) {
  if (!absl::IsDataLoss(status)) return;
  constexpr absl::string_view kFolder = "/db/";
  absl::string_view text = status.message();
  for (size_t at = text.find(kFolder); at != absl::string_view::npos;
       at = text.find(kFolder)) {
    text.remove_prefix(at + kFolder.size());
    size_t end = 0;
    while (end < text.size() && (absl::ascii_isalnum(text[end]) ||
                                 text[end] == '.' || text[end] == '-')) {
      ++end;
    }
    if (end > 0) files->emplace(text.substr(0, end));
  }
}

void AddBadFiles(Findings* findings) {
  std::set<std::string> files(findings->bad_files.begin(),
                              findings->bad_files.end());
  AddBadFiles(findings->opened, &files);
  for (const ExaminedStep& step : findings->steps) {
    AddBadFiles(step.status, &files);
  }
  findings->bad_files.assign(files.begin(), files.end());
}

// Returns the name of the MANIFEST with the highest number if CURRENT is
// missing or names none; RocksDB uses no number twice.
std::optional<std::string> ManifestToName(const std::string& store) {
  constexpr absl::string_view kPrefix = "MANIFEST-";
  const std::string folder = store + "/db";
  std::ifstream current(folder + "/CURRENT");
  std::string named;
  std::error_code error;
  if (std::getline(current, named) && absl::StartsWith(named, kPrefix) &&
      fs::exists(folder + "/" + named, error)) {
    return std::nullopt;
  }
  std::pair<uint64_t, std::string> newest;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t number = 0;
    if (!absl::StartsWith(name, kPrefix) ||
        !absl::SimpleAtoi(name.substr(kPrefix.size()), &number)) {
      continue;
    }
    newest = std::max(newest, {number, name});
  }
  if (newest.second.empty()) return std::nullopt;
  return newest.second;
}

// Returns Unavailable if another process has the store open.
absl::Status CheckUnlocked(const std::string& store) {
  const std::string path = store + "/LOCK";
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return absl::OkStatus();
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  const bool asked = ::fcntl(file, F_OFD_GETLK, &lock) == 0;
  ::close(file);
  if (!asked || lock.l_type == F_UNLCK) return absl::OkStatus();
  absl::Status held = absl::UnavailableError(
      absl::StrCat(store, " is open in another process; nothing was changed"));
  held.SetPayload(kHolderPayload, absl::Cord("unknown"));
  return held;
}

// Writes CURRENT, with the MANIFEST's mode, by renaming a durable file.
absl::Status NameManifest(const std::string& store, const std::string& name) {
  const std::string path = store + "/db/CURRENT";
  const std::string temporary = path + ".repair";
  const std::string line = name + "\n";
  constexpr mode_t kModeBits = 07777;
  struct stat manifest = {};
  const bool found = ::stat((store + "/db/" + name).c_str(), &manifest) == 0;
  // Left by an interrupted call, or a link that must not be followed.
  ::unlink(temporary.c_str());
  const int file =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written = file >= 0 && found &&
                 ::fchmod(file, manifest.st_mode & kModeBits) == 0 &&
                 ::write(file, line.data(), line.size()) ==
                     static_cast<ssize_t>(line.size()) &&
                 ::fsync(file) == 0;
  written = written && ::rename(temporary.c_str(), path.c_str()) == 0;
  absl::Status failed = FileError("write", path);  // reads errno
  if (file >= 0) ::close(file);
  if (written) return absl::OkStatus();
  ::unlink(temporary.c_str());
  return failed;
}

void ExamineSteps(const Context& context, Reader* reader, Findings* findings) {
  std::set<Version> verified;
  std::vector<StepRecord> records = reader->Steps();
  for (StepRecord& record : records) {
    const int64_t step = record.version.step;
    ProgressLine progress(context.terminal,
                          absl::StrCat("repair: step ", step));
    ReadOptions options;
    options.cancelled = [] { return Interrupt::asked(); };
    options.progress = [&](uint64_t done, uint64_t all) {
      progress.Update(done, all);
    };
    const auto opened = reader->OpenStep(step);
    const absl::Status status =
        opened.ok() ? (*opened)->Verify(options, &verified) : opened.status();
    if (IsGone(status)) continue;  // a trainer has retired it
    findings->steps.push_back({std::move(record), ReadingStatus(status)});
  }
  // The newest step has the highest attempt, also for `latest`. Times would be
  // wrong after the clock was set back, and for copies, which keep the original
  // time.
  uint32_t newest_attempt = 0;
  for (const ExaminedStep& step : findings->steps) {
    const uint32_t attempt = StateOf(step.record).attempt;
    if (!step.status.ok() || step.record.quarantined ||
        attempt < newest_attempt) {
      continue;
    }
    newest_attempt = attempt;
    findings->newest_whole = step.record.version.step;
  }
}

Findings ExamineStore(const Context& context) {
  Findings findings;
  const auto reader = Reader::Open(context.store);
  if (!reader.ok()) {
    findings.opened = WithPlace(ReadingStatus(reader.status()), context.store);
    findings.manifest = ManifestToName(context.store);
    return findings;
  }
  if (const std::string parts = (*reader)->parts(); !parts.empty()) {
    findings.opened = absl::FailedPreconditionError(absl::StrCat(
        context.store, " was fetched with only ", parts,
        ", so its steps cannot be checked; fetch it again if it is damaged"));
    return findings;
  }
  findings.bad_files = (*reader)->BadFiles();
  ExamineSteps(context, reader->get(), &findings);
  return findings;
}

Findings Examine(const Context& context) {
  Findings findings = ExamineStore(context);
  AddBadFiles(&findings);
  return findings;
}

Json FindingsJson(const std::string& store, const Findings& findings) {
  Json json = {{"store", store}};
  json["damaged"] = findings.damaged();
  json["open_error"] =
      findings.opened.ok() ? Json() : Json(Str(findings.opened.message()));
  json["manifest"] =
      findings.manifest.has_value() ? Json(*findings.manifest) : Json();
  json["bad_files"] = findings.bad_files;
  json["newest_whole_step"] =
      findings.newest_whole.has_value() ? Json(*findings.newest_whole) : Json();
  json["steps"] = Json::array();
  for (const ExaminedStep& step : findings.steps) {
    Json one = ToJson(step.record.version);
    one["pinned"] = step.record.pinned;
    one["quarantined"] = step.record.quarantined;
    one["error"] = step.status.ok() ? Json() : Json(Str(step.status.message()));
    json["steps"].push_back(std::move(one));
  }
  return json;
}

std::string StateText(const absl::Status& status) {
  if (status.ok()) return "whole";
  return absl::StrCat(absl::IsDataLoss(status) ? "lost: " : "not read: ",
                      Printable(status.message()));
}

void PrintFindings(const Findings& findings, std::ostream* out) {
  if (!findings.opened.ok()) {
    *out << "the store cannot be opened: "
         << Printable(findings.opened.message()) << '\n';
    *out << (findings.manifest.has_value()
                 ? absl::StrCat("db/CURRENT can be written anew, to name ",
                                *findings.manifest, "\n")
                 : std::string("its files contain no other state that could "
                               "be opened: restore a backup\n"));
    return;
  }
  for (const std::string& file : findings.bad_files) {
    *out << "db/" << file << ": damaged or missing\n";
  }
  for (const ExaminedStep& step : findings.steps) {
    *out << "step " << step.record.version.step << ": "
         << StateText(step.status) << (step.record.pinned ? " (pinned)" : "")
         << '\n';
  }
  if (findings.newest_whole.has_value()) {
    *out << "the newest whole step is " << *findings.newest_whole << '\n';
  } else if (!findings.steps.empty()) {
    const bool any_whole = findings.lost() + findings.unread() <
                           static_cast<int64_t>(findings.steps.size());
    *out << (any_whole ? "all whole steps are quarantined, so none is the "
                         "latest\n"
                       : "no step is whole\n");
  } else {
    *out << "the store has no steps\n";
  }
}

void PrintRepair(const Context& context, const Findings& findings,
                 const std::vector<Version>& removed, bool repaired) {
  if (context.json) {
    Json json = FindingsJson(context.store, findings);
    json["repaired"] = repaired;
    json["removed_versions"] = Json::array();
    for (const Version& version : removed) {
      json["removed_versions"].push_back(ToJson(version));
    }
    PrintJson(json, context.out);
    return;
  }
  PrintFindings(findings, context.out);
  for (const Version& version : removed) {
    *context.out << "removed step " << version.step << '\n';
  }
}

class RepairCommand : public Command {
 public:
  RepairCommand()
      : Command({.name = "repair",
                 .summary = "Show what is damaged and what can be saved; with "
                            "--yes keep only that",
                 .notes = kRepairNotes,
                 .examples =
                     "  ckptdb repair --store /checkpoints/ctr\n"
                     "  ckptdb repair --store /checkpoints/ctr --yes\n"}) {}
  void AddArguments(CLI::App* app) override {
    app->add_flag("--yes", yes_, "remove what is damaged");
  }
  absl::Status Run(const Context& context) override;

 private:
  absl::Status Reopen(const Context& context, Findings* findings);
  absl::Status Drop(const Context& context, const Findings& findings,
                    std::vector<Version>* removed) const;

  bool yes_ = false;
};

// Writes CURRENT. If the store then still cannot be opened, CURRENT is as
// before.
absl::Status RepairCommand::Reopen(const Context& context, Findings* findings) {
  CKPTDB_RETURN_IF_ERROR(CheckUnlocked(context.store));
  const std::string current = context.store + "/db/CURRENT";
  const std::string before = current + ".before-repair";
  std::error_code ignored;
  fs::remove(before, ignored);
  fs::create_hard_link(current, before, ignored);
  absl::Status status = NameManifest(context.store, *findings->manifest);
  Findings again;
  if (status.ok()) again = Examine(context);
  if (status.ok()) status = again.opened;
  if (status.ok()) {
    fs::remove(before, ignored);
    *findings = std::move(again);
    return absl::OkStatus();
  }
  fs::remove(current, ignored);
  fs::rename(before, current, ignored);
  return status;
}

absl::Status RepairCommand::Drop(const Context& context,
                                 const Findings& findings,
                                 std::vector<Version>* removed) const {
  if (!findings.newest_whole.has_value()) {
    return absl::DataLossError(absl::StrCat(
        context.store,
        ": no step is whole and not quarantined, so nothing was removed; "
        "restore a backup, or "
        "export what can still be read and remove the steps with \"ckptdb "
        "rm\""));
  }
  CKPTDB_ASSIGN_OR_RETURN(auto store, OpenOwner(context));
  CKPTDB_RETURN_IF_ERROR(RemoveDamaged(findings.steps, store.get(), removed));
  return Sweep(context, store.get()).status();
}

// Recommends a remedy for the remaining damage.
std::string Remedy(const Findings& after, bool yes) {
  if (!after.opened.ok()) {
    return after.manifest.has_value()
               ? "; --yes writes db/CURRENT anew"
               : ", which repair cannot change; restore a backup";
  }
  if (after.lost() == 0) return "";
  if (!after.newest_whole.has_value()) {
    return "; no step is whole and not quarantined, so --yes would remove "
           "nothing; restore a backup";
  }
  if (after.repairable() && !yes) return "; --yes keeps only undamaged steps";
  return "; unpin the damaged steps for --yes to remove them, or restore a "
         "backup";
}

// Returns the error that describes the remaining damage.
absl::Status Damage(const Context& context, const Findings& after, bool yes) {
  std::string text = context.store;
  if (!after.opened.ok()) {
    text += " cannot be opened";
  } else if (after.lost() > 0) {
    absl::StrAppend(&text, " is damaged, and ", after.lost(), " of its ",
                    after.steps.size(), " steps are lost");
  } else if (after.unread() == 0) {
    absl::StrAppend(&text, ": ", after.bad_files.size(),
                    " files are damaged or missing, but none of its ",
                    after.steps.size(), " steps needs them");
  }
  if (after.opened.ok() && after.unread() > 0) {
    absl::StrAppend(&text, after.lost() > 0 ? "; " : ": ", after.unread(),
                    " of its ", after.steps.size(),
                    " steps could not be read, which may be a passing error");
    if (after.lost() == 0) return absl::InternalError(text);
  }
  return absl::DataLossError(text + Remedy(after, yes));
}

absl::Status RepairCommand::Run(const Context& context) {
  const Interrupt interrupt;
  // A URL cannot be repaired.
  CKPTDB_RETURN_IF_ERROR(Store::ResolvePath(context.store).status());
  Findings findings = Examine(context);
  CKPTDB_RETURN_IF_ERROR(
      Interrupt::Describe(Interrupt::Check(), "nothing was changed"));
  if (!findings.opened.ok() && !absl::IsDataLoss(findings.opened)) {
    return findings.opened;
  }
  const bool was_damaged = findings.damaged();
  std::vector<Version> removed;
  absl::Status status;
  if (yes_ && findings.manifest.has_value()) {
    status = Reopen(context, &findings);
  }
  if (yes_ && status.ok() && findings.opened.ok() && findings.damaged()) {
    status = Drop(context, findings, &removed);
  }
  const bool changed = yes_ && was_damaged && status.ok();
  const Findings after = changed ? Examine(context) : findings;
  PrintRepair(context, findings, removed, changed && !after.damaged());
  CKPTDB_RETURN_IF_ERROR(status);
  if (!after.damaged()) return absl::OkStatus();
  if (changed) {
    CKPTDB_RETURN_IF_ERROR(Interrupt::Describe(
        Interrupt::Check(),
        "what is damaged was removed, but not all steps were read again"));
  }
  return Damage(context, after, yes_);
}

}  // namespace

std::unique_ptr<Command> NewRepair() {
  return std::make_unique<RepairCommand>();
}

}  // namespace ckptdb::tool
