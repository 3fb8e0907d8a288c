// ckptdb doctor: tries what a store needs of a file system.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/schema/status.h"
#include "ckptdb/tools/command.h"
#include "ckptdb/tools/doctor/checks.h"
#include "ckptdb/tools/doctor/host_peer.h"
#include "ckptdb/tools/doctor/mount.h"
#include "ckptdb/tools/doctor/private_folder.h"
#include "ckptdb/tools/doctor/process_peer.h"
#include "ckptdb/tools/doctor/report.h"
#include "ckptdb/tools/doctor/speed.h"
#include "ckptdb/tools/interrupt.h"
#include "ckptdb/tools/open_store.h"

namespace ckptdb::tool {
namespace {

using Peers = std::vector<std::unique_ptr<Peer>>;

class Doctor : public Command {
 public:
  std::string name() const override { return "doctor"; }
  std::string summary() const override {
    return "Try what a store needs of a file system, and how fast it is";
  }
  std::string notes() const override {
    return "It works in a folder of its own in DIR, which it removes, and "
           "touches nothing else.\nTo try a file system between hosts, start "
           "the command on all of them with the same\n--hosts and --session; "
           "the first one prints what was found.\n"
           "missing: the store does without. unsafe: a store there may lose "
           "steps, or its saves\nfail; the exit code is then 5.\n";
  }
  std::string examples() const override {
    return "  ckptdb doctor /checkpoints\n"
           "  ckptdb doctor /checkpoints --hosts 2 --session monday --json\n";
  }
  void AddArguments(CLI::App* app) override;
  absl::Status Run(const Context& context) override;

 private:
  absl::Status Lead(const Context& context, PrivateFolder* folder,
                    Report* report) const;
  absl::Status Try(FileCalls* files, const Peers& peers, Report* report) const;

  std::string folder_;
  std::string session_;
  uint32_t hosts_ = 1;
  uint64_t speed_mib_ = 64;
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
                  "folder on the file system; default: that of --store")
      ->type_name("DIR");
  app->add_option("--hosts", hosts_,
                  "number of hosts that run the command; default: 1")
      ->check(CLI::Range(uint32_t{1}, kMaxHosts));
  app->add_option("--session", session_,
                  "name by which the hosts find each other; needed with "
                  "--hosts, and new each time")
      ->type_name("NAME")
      ->check(CheckSession);
  app->add_option("--speed-mib", speed_mib_,
                  "MiB to write and read for the speed; 0: none; default: 64")
      ->check(CLI::Range(uint64_t{0}, kMaxSpeedMib));
}

// Makes the checks of one process first, then those with a second process, then
// those with each host: a failure of the first explains those of the others.
// The speed is measured last.
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
  if (speed_mib_ == 0) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(report->speed,
                          MeasureSpeed(files, speed_mib_ << 20, others));
  return absl::OkStatus();
}

absl::Status Doctor::Lead(const Context& context, PrivateFolder* folder,
                          Report* report) const {
  Peers peers;
  if (hosts_ > 1) {
    // This goes to standard error at once, as the user has to start the command
    // on the other hosts now.
    *context.err << "ckptdb: doctor: waiting for " << hosts_ - 1
                 << " more to run with --hosts " << hosts_ << " --session "
                 << session_ << std::endl;
    CKPTDB_ASSIGN_OR_RETURN(peers,
                            WaitForHosts(folder->files(), hosts_ - 1, {}));
  }
  for (const auto& peer : peers) report->hosts.push_back(peer->host());
  return Try(folder->files(), peers, report);
}

// Returns FailedPrecondition, and so exit code 5, when a check is unsafe. A
// host that does not lead has no outcomes, and ends with 0.
absl::Status Judge(const std::string& folder, const Report& report) {
  const auto unsafe = ChecksOf(report, CheckResult::kUnsafe);
  if (unsafe.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      folder, ": a store is not safe there; ", unsafe.size(), " of ",
      report.checks.size(), " checks failed: ", absl::StrJoin(unsafe, ", ")));
}

// Hosts find each other by the session, which one host has no use for.
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

absl::Status Doctor::Run(const Context& context) {
  CKPTDB_RETURN_IF_ERROR(CheckHosts(hosts_, session_));
  // From here on a signal ends the checks, and the folder is removed.
  const Interrupt interrupt;
  Report report;
  report.folder = folder_.empty() ? context.store : folder_;
  report.mount = MountOf(report.folder);
  CKPTDB_ASSIGN_OR_RETURN(const std::string host,
                          PeerService(nullptr).Do("host"));
  report.hosts.push_back(host);
  // The host that makes the folder leads; mkdir tells exactly one of them that
  // it has.
  auto folder = PrivateFolder::Make(report.folder,
                                    session_.empty() ? NewSession() : session_);
  absl::Status status = folder.status();
  if (folder.ok()) {
    status = Lead(context, folder->get(), &report);
    // The folder is removed after an error, too. The error of a check comes
    // before that of removing it.
    status.Update((*folder)->Remove());
  } else if (hosts_ > 1 && absl::IsAlreadyExists(status)) {
    report.leads = false;
    CKPTDB_ASSIGN_OR_RETURN(folder,
                            PrivateFolder::Join(report.folder, session_));
    status = ServeAsHost((*folder)->files(), {});
  }
  CKPTDB_RETURN_IF_ERROR(WithPlace(status, report.folder));
  if (context.json) {
    PrintJson(ReportJson(report), context.out);
  } else if (report.leads) {
    PrintReport(report, context.out);
  }
  return Judge(report.folder, report);
}

}  // namespace

std::unique_ptr<Command> NewDoctor() { return std::make_unique<Doctor>(); }

}  // namespace ckptdb::tool
