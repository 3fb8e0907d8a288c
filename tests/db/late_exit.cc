// SPDX-License-Identifier: Apache-2.0
#include "tests/db/late_exit.h"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "db/reader.h"
#include "db/state.h"
#include "db/store.h"
#include "schema/status.h"
#include "tests/db/child_content.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

struct Left {
  std::string path;
  Ticket ticket;
  std::unique_ptr<Store> store;
  std::unique_ptr<StepReader> own_step;
  std::unique_ptr<Reader> reader;
  std::unique_ptr<StepReader> step;
};
Left* left = nullptr;

void Tell(const char* call, const absl::Status& status) {
  std::cout << call << ' ' << status << std::endl;
}

absl::Status StageTheTicket() {
  const HeldState held(ChildContent(0), 100, AnyRank(left->ticket));
  return Stage(left->path, left->ticket, held.state()).status();
}

void CallAll() {
  const HeldState held(SmallContent(2));
  Tell("open", Store::Open(left->path).status());
  Tell("follow", Reader::Open(left->path).status());
  Tell("stage", StageTheTicket());
  Tell("save", left->store->Save({.step = 2}, held.state()).status());
  Tell("verify own", left->own_step->Verify());
  Tell("refresh", left->reader->Refresh());
  Tell("open step", left->reader->OpenStep(1).status());
  Tell("verify", left->step->Verify());
  Tell("look up", left->step->LookupRow("user", 1).status());
  Tell("close", left->store->Close());
}

}  // namespace

absl::Status LeaveForExit(const std::string& path) {
  left = new Left();
  left->path = path;
  std::atexit(CallAll);
  CKPTDB_ASSIGN_OR_RETURN(left->store, Store::Open(path));
  const HeldState held(BulkContent(1));
  CKPTDB_RETURN_IF_ERROR(left->store->Save({.step = 1}, held.state()).status());
  CKPTDB_ASSIGN_OR_RETURN(Store::Attempt save, left->store->Begin({.step = 3}));
  left->ticket = std::move(save.tickets[0]);
  CKPTDB_ASSIGN_OR_RETURN(left->own_step, left->store->OpenStep(1));
  CKPTDB_ASSIGN_OR_RETURN(left->reader, Reader::Open(path));
  CKPTDB_ASSIGN_OR_RETURN(left->step, left->reader->OpenStep(1));
  return absl::OkStatus();
}

absl::Status StageAndStageAtExit(const std::string& path,
                                 const std::string& ticket) {
  left = new Left();
  left->path = path;
  std::atexit([] { Tell("stage", StageTheTicket()); });
  CKPTDB_ASSIGN_OR_RETURN(left->ticket, Ticket::Decode(ticket));
  return StageTheTicket();
}

}  // namespace ckptdb::testing
