// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/host_peer.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "schema/status.h"
#include "tools/doctor/private_folder.h"
#include "tools/interrupt.h"

namespace ckptdb::tool {
namespace {

constexpr char kJoined[] = "joined-";
constexpr char kEnd[] = "end";

// A message ends with a newline, so that a host that sees only a part of it
// can tell.
absl::Status WriteMessage(FileCalls* files, const std::string& name,
                          const std::string& text) {
  return ReplaceFile(files, name, absl::StrCat(text, "\n"));
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns Aborted if `witness`, a file that exists as long as the folder, is
// gone. Listing the folder also makes the host look up names again that it has
// not found before.
absl::Status CheckFolder(FileCalls* files, const std::string& witness) {
  const auto names = files->List();
  if (names.ok() && Has(*names, witness)) return absl::OkStatus();
  return absl::AbortedError("its folder was removed");
}

// There is no event for a file that another host creates, so this polls.
void Pause() {
  constexpr int kMilliseconds = 2;
  ::poll(nullptr, 0, kMilliseconds);
}

absl::StatusOr<std::string> Await(FileCalls* files, const std::string& name,
                                  const std::string& witness,
                                  absl::Duration patience) {
  // A listing may refresh the host's cache of all files, and hide stale reads,
  // so it is made only if the message is late.
  constexpr absl::Duration kLate = absl::Milliseconds(500);
  const absl::Time end = absl::Now() + patience;
  absl::Time listing = absl::Now() + kLate;
  while (absl::Now() < end) {
    CKPTDB_RETURN_IF_ERROR(Interrupt::Check());
    const auto message = ReadFile(files, name);
    // Retries if the file does not exist yet, cannot be read, or is incomplete.
    if (message.ok() && absl::EndsWith(*message, "\n")) {
      return message->substr(0, message->size() - 1);
    }
    if (absl::Now() > listing) {
      CKPTDB_RETURN_IF_ERROR(CheckFolder(files, witness));
      listing = absl::Now() + kLate;
    }
    Pause();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("no answer within ", absl::FormatDuration(patience)));
}

class HostPeer : public Peer {
 public:
  HostPeer(FileCalls* files, std::string id, std::string host,
           absl::Duration patience)
      : files_(files),
        id_(std::move(id)),
        host_(std::move(host)),
        patience_(patience) {}
  ~HostPeer() override { Ask(kEnd).IgnoreError(); }

  const std::string& host() const override { return host_; }

  absl::StatusOr<std::string> Ask(const std::string& request) override {
    if (gone_) {
      return absl::AbortedError(absl::StrCat(host_, " does not answer"));
    }
    const absl::StatusOr<std::string> answer = Exchange(request);
    if (answer.ok()) return DecodeAnswer(*answer);
    // Do not ask a peer again that did not answer once: each check would wait
    // for its whole patience.
    gone_ = true;
    if (absl::IsCancelled(answer.status())) return answer.status();
    return absl::AbortedError(
        absl::StrCat(host_, ": ", answer.status().message()));
  }

 private:
  absl::StatusOr<std::string> Exchange(const std::string& request) {
    // Each request has a new name, so that a cached file is never mistaken for
    // a new one.
    const std::string number = absl::StrCat(id_, "-", ++asked_);
    CKPTDB_RETURN_IF_ERROR(
        WriteMessage(files_, absl::StrCat("ask-", number), request));
    return Await(files_, absl::StrCat("answer-", number),
                 absl::StrCat(kJoined, id_), patience_);
  }

  FileCalls* const files_;
  const std::string id_;
  const std::string host_;
  const absl::Duration patience_;
  int asked_ = 0;
  bool gone_ = false;
};

// Returns the ids of the processes that have joined, sorted.
absl::StatusOr<std::vector<std::string>> JoinedIds(FileCalls* files) {
  CKPTDB_ASSIGN_OR_RETURN(std::vector<std::string> names, files->List());
  std::vector<std::string> ids;
  for (const std::string& name : names) {
    absl::string_view id = name;
    if (!absl::ConsumePrefix(&id, kJoined)) continue;
    if (IsSessionName(id)) ids.emplace_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Peer>>> WaitForHosts(
    FileCalls* files, size_t count, const Patience& patience) {
  const absl::Time end = absl::Now() + patience.to_join;
  std::vector<std::string> ids;
  while (ids.size() < count) {
    CKPTDB_RETURN_IF_ERROR(Interrupt::Check());
    if (absl::Now() >= end) {
      return absl::DeadlineExceededError(absl::StrCat(
          ids.size() + 1, " of ", count + 1, " hosts joined within ",
          absl::FormatDuration(patience.to_join),
          "; start the command on all hosts with the same --hosts, --session "
          "and folder, which must be on the same file system"));
    }
    Pause();
    CKPTDB_ASSIGN_OR_RETURN(ids, JoinedIds(files));
  }
  std::vector<std::unique_ptr<Peer>> peers;
  for (const std::string& id : ids) {
    CKPTDB_ASSIGN_OR_RETURN(
        std::string host, Await(files, absl::StrCat(kJoined, id),
                                absl::StrCat(kJoined, id), patience.to_answer));
    peers.push_back(std::make_unique<HostPeer>(files, id, std::move(host),
                                               patience.to_answer));
    // Tells each host early that a process leads.
    CKPTDB_RETURN_IF_ERROR(peers.back()->Ask("host").status());
  }
  return peers;
}

absl::Status ServeAsHost(FileCalls* files, const Patience& patience) {
  PeerService service(files);
  const std::string id = NewSession();
  CKPTDB_ASSIGN_OR_RETURN(const std::string host, service.Do("host"));
  CKPTDB_RETURN_IF_ERROR(WriteMessage(files, absl::StrCat(kJoined, id), host));
  for (int number = 1;; ++number) {
    const std::string name = absl::StrCat(id, "-", number);
    // The first request arrives when all hosts have joined. In a folder left
    // behind by a killed process it never arrives.
    const bool first = number == 1;
    const auto request = Await(
        files, absl::StrCat("ask-", name), absl::StrCat(kJoined, id),
        first ? patience.to_join + patience.to_answer : patience.for_a_turn);
    if (absl::IsCancelled(request.status())) return request.status();
    if (first && absl::IsDeadlineExceeded(request.status())) {
      files->Unlink(absl::StrCat(kJoined, id)).IgnoreError();
      return absl::AbortedError(absl::StrCat(
          "no process leads this session: its folder ", kPrivatePrefix,
          "NAME is left from an earlier one; remove it, or give --session "
          "another name"));
    }
    if (!request.ok()) {
      return absl::AbortedError(
          absl::StrCat("the host that leads this session has ended: ",
                       request.status().message()));
    }
    const absl::Status answered =
        WriteMessage(files, absl::StrCat("answer-", name),
                     EncodeAnswer(service.Do(*request)));
    // The folder may be removed before the last answer is durable.
    if (*request == kEnd) return absl::OkStatus();
    CKPTDB_RETURN_IF_ERROR(answered);
  }
}

}  // namespace ckptdb::tool
