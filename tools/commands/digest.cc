// SPDX-License-Identifier: Apache-2.0
// ckptdb digest: digests of the contents of a step.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/content_digest.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"
#include "tools/text_table.h"

namespace ckptdb::tool {
namespace {

void PrintDigestText(const Version& version, const StepDigest& digest,
                     bool with_items, std::ostream* out) {
  *out << ToString(version) << '\n';
  TextTable table({"", ""});
  table.AddRow({"model", digest.model});
  table.AddRow({"blobs", digest.blobs});
  *out << table.ToString();
  if (!with_items) return;
  TextTable items({"KIND", "NAME", ">RANK", ">ROWS", ">BYTES", "DIGEST"});
  for (const ItemDigest& item : digest.items) {
    const bool is_table = item.kind == Item::Kind::kRows;
    const bool is_blob = item.kind == Item::Kind::kBlob;
    items.AddRow({Str(ItemKindName(item.kind)), Printable(item.name),
                  is_blob ? absl::StrCat(item.rank) : "-",
                  is_table ? FormatCount(item.rows) : "-",
                  FormatBytes(item.raw_bytes), item.digest});
  }
  *out << '\n' << items.ToString();
}

Json DigestJson(const std::string& store, const Version& version,
                const StepDigest& digest) {
  Json json = {{"store", store}};
  json.update(ToJson(version));
  json["model_digest"] = digest.model;
  json["blobs_digest"] = digest.blobs;
  json["items"] = Json::array();
  for (const ItemDigest& item : digest.items) {
    const bool is_table = item.kind == Item::Kind::kRows;
    const bool is_blob = item.kind == Item::Kind::kBlob;
    json["items"].push_back({{"kind", Str(ItemKindName(item.kind))},
                             {"name", item.name},
                             {"rank", is_blob ? Json(item.rank) : Json()},
                             {"rows", is_table ? Json(item.rows) : Json()},
                             {"raw_bytes", item.raw_bytes},
                             {"content_digest", item.digest}});
  }
  return json;
}

constexpr char kDigestNotes[] =
    "Equal digests mean equal contents, whatever the chain, the number\n"
    "of ranks, the shards and the codecs without loss. \"model\" is of\n"
    "the names, dtypes, shapes and bytes of all tensors, and the rows\n"
    "of all tables in any order; \"blobs\" of the blobs of each rank.\n";

class Digest : public Command {
 public:
  Digest()
      : Command({.name = "digest",
                 .summary = "Show digests of the contents of a step",
                 .notes = kDigestNotes,
                 .examples = "  ckptdb digest latest --store /checkpoints/ctr\n"
                             "  ckptdb digest 1000 --items --json\n",
                 .paged = true}) {}
  void AddArguments(CLI::App* app) override {
    AddStep(app, &step_);
    app->add_flag("--items", with_items_, "also of each item; always in JSON");
  }
  absl::Status Run(const Context& context) override {
    CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
    CKPTDB_ASSIGN_OR_RETURN(auto step, OpenStep(context, reader.get(), step_));
    ProgressLine progress(context.terminal, "digest: reading");
    ReadOptions options;
    options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
      progress.Update(done_bytes, all_bytes);
    };
    const auto digest = DigestStep(*step, options);
    if (!digest.ok()) return ReadingStatus(digest.status());
    const Version& version = step->record().version;
    if (context.json) {
      PrintJson(DigestJson(context.store, version, *digest), context.out);
    } else {
      PrintDigestText(version, *digest, with_items_, context.out);
    }
    return absl::OkStatus();
  }

 private:
  std::string step_;
  bool with_items_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDigest() { return std::make_unique<Digest>(); }

}  // namespace ckptdb::tool
