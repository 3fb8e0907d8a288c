// SPDX-License-Identifier: Apache-2.0
// ckptdb import: saves files of other systems as a step.
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/files/import_state.h"
#include "tools/files/loaded_files.h"
#include "tools/files/mapped_file.h"
#include "tools/format.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/new_store.h"
#include "tools/open_store.h"
#include "tools/outside_store.h"
#include "tools/progress_line.h"
#include "tools/step_argument.h"

namespace ckptdb::tool {
namespace {

constexpr char kImportNotes[] =
    "Arrays <table>.ids (int64) and <table>.<slot> with as many rows\n"
    "become a table, all others tensors. The step is full, and is\n"
    "committed at once when all is written; the store is created if it\n"
    "does not exist. Nothing in a file is executed. docs/files.md\n"
    "describes the files.\n";

struct ImportOptions {
  std::vector<std::string> paths;
  std::string step;
  std::vector<std::string> tables;
  bool no_tables = false;
  bool force = false;
  bool older = false;
};

// Replaces the prefix of keys that a manager wrote, which describe the exported
// step and not the imported one.
constexpr char kManagerPrefix[] = "ckptdb.";
constexpr char kImportedPrefix[] = "imported.";

void RenameManagerKeys(std::map<std::string, std::string>* metadata) {
  std::map<std::string, std::string> renamed;
  for (auto it = metadata->begin(); it != metadata->end();) {
    absl::string_view key = it->first;
    if (absl::ConsumePrefix(&key, kManagerPrefix)) {
      renamed[absl::StrCat(kImportedPrefix, key)] = std::move(it->second);
      it = metadata->erase(it);
    } else {
      ++it;
    }
  }
  // A key of the file that already has this name is kept.
  for (auto& [key, value] : renamed) {
    std::string longer = key;
    while (!metadata->emplace(longer, value).second) longer += '+';
  }
}

// Metadata of files that a step cannot have becomes a blob.
constexpr char kMetadataBlob[] = "file.metadata";

absl::Status KeepMetadata(LoadedFiles* files) {
  RenameManagerKeys(&files->metadata);
  uint64_t bytes = 0;
  bool fits = true;
  for (const auto& [key, value] : files->metadata) {
    bytes += key.size() + value.size();
    fits = fits && !key.empty() && key.size() <= kMaxNameBytes &&
           key.find('\0') == std::string::npos;
  }
  if (fits && bytes <= kMaxMetadataBytes) return absl::OkStatus();
  const std::string json =
      MetadataJson(files->metadata)
          .dump(-1, ' ', false, Json::error_handler_t::replace);
  files->metadata.clear();
  return files->AddBlob(kMetadataBlob, json);
}

absl::StatusOr<StagedRank> StageFiles(const Context& context,
                                      const Store& store, const Ticket& ticket,
                                      const ImportState& state) {
  ProgressLine progress(context.terminal, "import");
  StoreOptions options;
  options.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    // Stage returns an error for an exception of this function, and removes
    // its files.
    if (Interrupt::asked()) throw std::runtime_error("interrupted");
    progress.Update(done_bytes, all_bytes);
  };
  return Stage(store.path(), ticket, state.state, options);
}

// Replaces remedies of the C++ API by options of the command.
absl::Status ImportError(const Context& context, int64_t step,
                         const absl::Status& status) {
  if (absl::IsAlreadyExists(status)) {
    return absl::AlreadyExistsError(absl::StrCat(
        context.store, ": step ", step,
        " exists; choose another with --step, or replace it with --force"));
  }
  return WithPlace(ReadingStatus(status), context.store);
}

absl::StatusOr<SaveResult> SaveFiles(const Context& context,
                                     const LoadedFiles& files,
                                     const ImportState& state,
                                     const SaveSpec& spec, Store* store) {
  const auto begun = store->Begin(spec);
  if (!begun.ok()) return ImportError(context, spec.step, begun.status());
  const Store::Attempt& attempt = *begun;
  auto checked = std::async(std::launch::async,
                            [&] { return files.Check(Interrupt::Check); });
  auto staged = StageFiles(context, *store, attempt.tickets[0], state);
  absl::Status status = checked.get();
  status.Update(staged.status());
  status.Update(Interrupt::Check());
  if (status.ok()) {
    auto saved = store->Publish(attempt.version, {*std::move(staged)}, spec);
    if (saved.ok()) return saved;
    status = saved.status();
  }
  // The first error is returned; a later sweep removes the rest.
  store->Abandon(attempt.version).IgnoreError();
  store->Sweep().status().IgnoreError();
  if (Interrupt::asked()) {
    return absl::CancelledError(
        "the import was interrupted; nothing was imported");
  }
  return ImportError(context, spec.step, status);
}

void PrintImport(const ImportState& state, const LoadedFiles& files,
                 const SaveResult& saved, std::ostream* out) {
  *out << "imported " << FormatCount(state.tensor_count) << " tensors, "
       << FormatCount(state.table_count) << " tables of "
       << FormatCount(state.row_count) << " rows and "
       << FormatCount(files.blobs.size()) << " blobs as "
       << ToString(saved.version) << ": " << FormatBytes(saved.raw_bytes)
       << '\n';
}

Json ImportJson(const std::string& store, const ImportState& state,
                const LoadedFiles& files, const SaveResult& saved) {
  Json json = {{"store", store}};
  json.update(ToJson(saved.version));
  json["tensors"] = state.tensor_count;
  json["tables"] = state.table_count;
  json["rows"] = state.row_count;
  json["blobs"] = files.blobs.size();
  json["raw_bytes"] = saved.raw_bytes;
  json["stored_bytes"] = saved.exclusive_bytes;
  return json;
}

class ImportCommand : public Command {
 public:
  ImportCommand()
      : Command({.name = "import",
                 .summary = "Save files of other systems as a step",
                 .notes = kImportNotes,
                 .examples =
                     "  ckptdb import model.safetensors --step 0 -s "
                     "/checkpoints/new\n"
                     "  ckptdb import user.npz mlp.npz --step 1000 --table "
                     "user -s /checkpoints/ctr\n"}) {}
  void AddArguments(CLI::App* app) override;
  absl::Status Run(const Context& context) override;

 private:
  absl::StatusOr<SaveResult> Save(const Context& context,
                                  const LoadedFiles& files,
                                  const ImportState& state) const;

  ImportOptions options_;
};

void ImportCommand::AddArguments(CLI::App* app) {
  app->add_option(
         "FILE", options_.paths,
         "files of safetensors, NumPy or torch.save, or a folder of RecIS")
      ->type_name("")
      ->required();
  app->add_option("--step", options_.step, "the step to save")
      ->type_name("STEP")
      ->check([](const std::string& text) {
        return text == kLatest ? "a number is expected"
                               : std::string(CheckStepText(text).message());
      })
      ->required();
  app->add_option("--table", options_.tables,
                  "a table that the files must contain; may be repeated")
      ->type_name("TABLE");
  app->add_flag("--no-tables", options_.no_tables, "import tensors only")
      ->excludes("--table");
  app->add_flag("--force", options_.force, "replace a step that exists");
  app->add_flag("--older", options_.older,
                "import also before the latest step of the store, in whose "
                "place a restore then begins with the import");
}

absl::StatusOr<SaveResult> ImportCommand::Save(const Context& context,
                                               const LoadedFiles& files,
                                               const ImportState& state) const {
  const Interrupt interrupt;
  NewStore new_store(context.store);
  CKPTDB_ASSIGN_OR_RETURN(const auto store, OpenOwner(context, true));
  SaveSpec spec;
  spec.step = StepNumber(options_.step);
  spec.overwrite = options_.force;
  spec.user_metadata = files.metadata;
  if (!options_.older) {
    CKPTDB_RETURN_IF_ERROR(CheckBecomesLatest(*store, spec.step, "--older"));
  }
  auto saved = SaveFiles(context, files, state, spec, store.get());
  if (saved.ok()) new_store.Keep();
  return saved;
}

absl::Status ImportCommand::Run(const Context& context) {
  if (!context.store_given) {
    return absl::InvalidArgumentError(
        "the store to import into is not named; set --store or CKPTDB_STORE");
  }
  CKPTDB_RETURN_IF_ERROR(CheckNotWithinStore(context.store));
  const MappedFileErrors errors;
  LoadedFiles files;
  for (const std::string& path : options_.paths) {
    CKPTDB_RETURN_IF_ERROR(LoadFile(path, &files));
  }
  CKPTDB_RETURN_IF_ERROR(KeepMetadata(&files));
  std::vector<ArrayTable> tables;
  if (!options_.no_tables) {
    CKPTDB_ASSIGN_OR_RETURN(
        tables, FindTables(files.arrays,
                           {options_.tables.begin(), options_.tables.end()}));
  }
  ImportState state;
  CKPTDB_RETURN_IF_ERROR(AddArrays(files, tables, &state));
  if (state.tensor_count + state.table_count + files.blobs.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.paths[0], ": has no arrays or values: nothing to import"));
  }
  CKPTDB_ASSIGN_OR_RETURN(const SaveResult saved, Save(context, files, state));
  if (context.json) {
    PrintJson(ImportJson(context.store, state, files, saved), context.out);
  } else {
    PrintImport(state, files, saved, context.out);
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewImport() {
  return std::make_unique<ImportCommand>();
}

}  // namespace ckptdb::tool
