// SPDX-License-Identifier: Apache-2.0
// ckptdb doctor: checks whether a file system meets a store's requirements, or
// an object store those of a remote.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "remote/check_remote.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/host_peer.h"
#include "tools/doctor/mount.h"
#include "tools/doctor/private_folder.h"
#include "tools/doctor/process_peer.h"
#include "tools/doctor/report.h"
#include "tools/doctor/speed.h"
#include "tools/interrupt.h"
#include "tools/open_store.h"

namespace ckptdb::tool {
namespace {

using Peers = std::vector<std::unique_ptr<Peer>>;

constexpr char kDoctorNotes[] =
    "The checks run in a temporary folder in DIR and touch nothing\n"
    "else. To check a file system that several hosts share, run the\n"
    "command on all of them with the same --hosts and --session; the\n"
    "first host prints the results.\n"
    "missing: the store works without it. unsafe: a store there may\n"
    "lose steps, or its saves may fail; the exit code is then 5.\n"
    "With s3://bucket/prefix or file:///folder the command checks\n"
    "whether steps can be shipped there: credentials, which it never\n"
    "prints, the service, the bucket, the calls that a push makes, the\n"
    "clock, the speed of one object, and what was shipped there.\n";

class Doctor : public Command {
 public:
  Doctor()
      : Command({.name = "doctor",
                 .summary = "Check that a file system or an object store "
                            "meets the requirements, and measure its speed",
                 .notes = kDoctorNotes,
                 .examples = "  ckptdb doctor /checkpoints\n"
                             "  ckptdb doctor /checkpoints --hosts 2 --session "
                             "monday --json\n"
                             "  ckptdb doctor s3://models/ctr\n"}) {}
  void AddArguments(CLI::App* app) override;
  absl::Status Run(const Context& context) override;

 private:
  absl::Status Lead(const Context& context, PrivateFolder* folder,
                    Report* report) const;
  absl::Status Try(FileCalls* files, const Peers& peers, Report* report) const;
  absl::Status RunOnRemote(const Context& context, Report* report) const;

  std::string folder_;
  std::string session_;
  uint32_t hosts_ = 1;
  std::optional<uint64_t> speed_mib_;
};

std::string CheckSession(const std::string& name) {
  if (IsSessionName(name)) return "";
  return absl::StrCat("invalid session \"", name,
                      "\"; expected 1 to 64 letters, digits and \"-\"");
}

void Doctor::AddArguments(CLI::App* app) {
  constexpr uint32_t kMaxHosts = 64;
  constexpr uint64_t kMaxSpeedMib = uint64_t{1} << 20;
  app->add_option("dir", folder_,
                  "folder on the file system, or a remote's URL; default: "
                  "the --store folder")
      ->type_name("DIR");
  app->add_option("--hosts", hosts_,
                  "number of hosts that run the command; default: 1")
      ->check(CLI::Range(uint32_t{1}, kMaxHosts));
  app->add_option("--session", session_,
                  "name by which the hosts find each other; required with "
                  "--hosts, and different for each run")
      ->type_name("NAME")
      ->check(CheckSession);
  app->add_option(
         "--speed-mib", speed_mib_,
         "MiB to write and read to measure speed; 0: none; default: 64, and "
         "1 with a URL")
      ->check(CLI::Range(uint64_t{0}, kMaxSpeedMib));
}

// Runs the checks of one process first, then those with a second process, then
// those with each host, because a failure of the first explains failures of the
// others. Measures the speed last.
absl::Status Doctor::Try(FileCalls* files, const Peers& peers,
                         Report* report) const {
  CKPTDB_RETURN_IF_ERROR(RunChecks({.files = files}, &report->checks));
  {
    CKPTDB_ASSIGN_OR_RETURN(const auto process, StartProcessPeer(files));
    CKPTDB_RETURN_IF_ERROR(
        RunChecks({.files = files, .peer = process.get()}, &report->checks));
  }
  std::vector<Peer*> others;
  for (const auto& peer : peers) {
    CKPTDB_RETURN_IF_ERROR(
        RunChecks({.files = files, .peer = peer.get()}, &report->checks));
    others.push_back(peer.get());
  }
  constexpr uint64_t kSpeedMib = 64;
  const uint64_t speed_mib = speed_mib_.value_or(kSpeedMib);
  if (speed_mib == 0) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(report->speed,
                          MeasureSpeed(files, speed_mib << 20, others));
  return absl::OkStatus();
}

absl::Status Doctor::Lead(const Context& context, PrivateFolder* folder,
                          Report* report) const {
  Peers peers;
  if (hosts_ > 1) {
    // Flushed at once, because the user must now start the command on the other
    // hosts.
    *context.err << "ckptdb: doctor: waiting for " << hosts_ - 1
                 << " more hosts to run with --hosts " << hosts_
                 << " --session " << session_ << std::endl;
    CKPTDB_ASSIGN_OR_RETURN(peers,
                            WaitForHosts(folder->files(), hosts_ - 1, {}));
  }
  for (const auto& peer : peers) report->hosts.push_back(peer->host());
  return Try(folder->files(), peers, report);
}

// Returns FailedPrecondition, which is exit code 5, if a check is unsafe. A
// host that is not the leader has no results, and exits with 0.
absl::Status Judge(const Report& report) {
  const auto unsafe = ChecksOf(report, CheckResult::kUnsafe);
  if (unsafe.empty()) return absl::OkStatus();
  std::string message =
      absl::StrCat(report.folder,
                   report.is_remote ? ": steps cannot be shipped there; "
                                    : ": a store is not safe there; ",
                   unsafe.size(), " of ", report.checks.size(),
                   " checks failed: ", absl::StrJoin(unsafe, ", "));
  for (const CheckOutcome& check : report.checks) {
    if (!report.is_remote || check.result != CheckResult::kUnsafe) continue;
    absl::StrAppend(&message, "; the first: ", check.observed);
    break;
  }
  return absl::FailedPreconditionError(message);
}

// Several hosts need a session to find each other; one host does not.
absl::Status CheckHosts(uint32_t hosts, const std::string& session) {
  if (hosts > 1 && session.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts ", hosts,
                     " requires --session; give the same name on all "
                     "hosts, such as --session ",
                     NewSession().substr(0, 8)));
  }
  if (hosts == 1 && !session.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--session ", session,
                     " requires --hosts with the number of "
                     "hosts that run the command"));
  }
  return absl::OkStatus();
}

// Prints the report, and returns the exit code as a status.
absl::Status Finish(const Context& context, const Report& report) {
  if (context.json) {
    PrintJson(ReportJson(report), context.out);
  } else if (report.leads) {
    PrintReport(report, context.out);
  }
  return Judge(report);
}

absl::Status Doctor::RunOnRemote(const Context& context, Report* report) const {
  if (hosts_ > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts is for folders, and ", report->folder,
                     " is a URL; run the command on each host"));
  }
  const Interrupt interrupt;
  CheckRemoteOptions options;
  options.remote.cancelled = [] { return Interrupt::asked(); };
  if (speed_mib_.has_value()) options.speed_bytes = *speed_mib_ << 20;
  const absl::StatusOr<std::vector<RemoteCheck>> checks =
      CheckRemote(report->folder, options);
  CKPTDB_RETURN_IF_ERROR(Interrupt::Describe(
      checks.status(),
      "\"ckptdb remote gc\" removes what the checks could not delete"));
  for (const RemoteCheck& check : *checks) {
    report->checks.push_back(
        {.name = check.name,
         .host = {},
         .result = check.result == RemoteCheck::Result::kOk ? CheckResult::kOk
                   : check.result == RemoteCheck::Result::kMissing
                       ? CheckResult::kMissing
                       : CheckResult::kUnsafe,
         .observed = check.observed,
         .consequence = check.remedy});
  }
  report->is_remote = true;
  return Finish(context, *report);
}

absl::Status Doctor::Run(const Context& context) {
  CKPTDB_RETURN_IF_ERROR(CheckHosts(hosts_, session_));
  Report report;
  report.folder = folder_.empty() ? context.store : folder_;
  CKPTDB_ASSIGN_OR_RETURN(const std::string host,
                          PeerService(nullptr).Do("host"));
  report.hosts.push_back(host);
  if (absl::StrContains(report.folder, "://")) {
    return RunOnRemote(context, &report);
  }
  // From here on a signal stops the checks, and the folder is removed.
  const Interrupt interrupt;
  report.mount = MountOf(report.folder);
  // The host whose mkdir succeeds leads.
  auto folder = PrivateFolder::Make(report.folder,
                                    session_.empty() ? NewSession() : session_);
  absl::Status status = folder.status();
  if (folder.ok()) {
    status = Lead(context, folder->get(), &report);
    // Removes the folder after an error, too. The checks' error takes
    // precedence over an error of the removal.
    status.Update((*folder)->Remove());
  } else if (hosts_ > 1 && absl::IsAlreadyExists(status)) {
    report.leads = false;
    CKPTDB_ASSIGN_OR_RETURN(folder,
                            PrivateFolder::Join(report.folder, session_));
    status = ServeAsHost((*folder)->files(), {});
  }
  CKPTDB_RETURN_IF_ERROR(WithPlace(status, report.folder));
  return Finish(context, report);
}

}  // namespace

std::unique_ptr<Command> NewDoctor() { return std::make_unique<Doctor>(); }

}  // namespace ckptdb::tool
