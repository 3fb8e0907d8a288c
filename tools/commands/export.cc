// SPDX-License-Identifier: Apache-2.0
// ckptdb export: writes a step as files of other systems.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/command.h"
#include "tools/files/array_writer.h"
#include "tools/files/output_folder.h"
#include "tools/files/recis.h"
#include "tools/files/recis_step.h"
#include "tools/files/step_arrays.h"
#include "tools/files/text_rows.h"
#include "tools/format.h"
#include "tools/id_list.h"
#include "tools/interrupt.h"
#include "tools/json.h"
#include "tools/open_store.h"
#include "tools/outside_store.h"
#include "tools/progress_line.h"
#include "tools/row_filter.h"
#include "tools/slots_argument.h"
#include "tools/step_argument.h"
#include "tools/suggestion.h"
#include "tools/text_table.h"
#include "tools/value_checks.h"

namespace ckptdb::tool {
namespace {

// Hugging Face's default.
constexpr uint64_t kDefaultShardBytes = 5'000'000'000;

constexpr char kExportNotes[] =
    "A table becomes the arrays <table>.ids and <table>.<slot>, in the\n"
    "same order of rows. Blobs are not exported as arrays. Files appear\n"
    "under their names when all are whole; without --force nothing is\n"
    "overwritten. docs/files.md describes the files.\n";

struct ExportOptions {
  std::string step;
  std::string format;
  std::string folder;
  std::string slots;
  std::string ids;
  uint64_t shard_bytes = 0;  // 0: the default
  uint32_t world = 0;        // 0: the default
  bool force = false;
  StepSelection selection;
};

// The result of an export.
struct ExportResult {
  Version version;
  uint64_t tensor_count = 0;
  uint64_t table_count = 0;
  uint64_t row_count = 0;
  uint64_t skipped_blobs = 0;
  std::vector<OutputFolder::Written> files;
};

using ArrayWriterOr = absl::StatusOr<std::unique_ptr<ArrayWriter>>;

ArrayWriterOr NewWriter(const ExportOptions& options, const StepRecord& record,
                        const StepArrays& arrays, OutputFolder* folder) {
  if (options.format == "npy") return NewNpyWriter(folder, arrays.arrays);
  if (options.format == "npz") {
    const std::string file = absl::StrCat("step-", record.version.step, ".npz");
    return NewNpzWriter(folder, file, arrays.arrays);
  }
  std::map<std::string, std::string> metadata = record.user_metadata;
  // Without it, Hugging Face's libraries refuse a file.
  metadata.emplace("format", "pt");
  return NewSafetensorsWriter(
      folder, arrays.arrays, metadata,
      options.shard_bytes == 0 ? kDefaultShardBytes : options.shard_bytes);
}

absl::Status ExportArrays(const ExportOptions& options, const StepReader& step,
                          const ReadOptions& read, OutputFolder* folder,
                          ExportResult* result) {
  CKPTDB_ASSIGN_OR_RETURN(const StepArrays arrays,
                          ListArrays(step, options.selection, read));
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayWriter> writer,
                          NewWriter(options, step.record(), arrays, folder));
  CKPTDB_RETURN_IF_ERROR(
      WriteArrays(step, options.selection, arrays, read, writer.get()));
  result->tensor_count = arrays.tensors.size();
  result->table_count = arrays.tables.size();
  result->row_count = arrays.rows();
  result->skipped_blobs = arrays.blobs;
  return absl::OkStatus();
}

absl::Status ExportRecis(const ExportOptions& options, const StepReader& step,
                         const ReadOptions& read, OutputFolder* folder,
                         ExportResult* result) {
  const uint32_t world = std::max(1U, options.world);
  CKPTDB_ASSIGN_OR_RETURN(const RecisStep recis,
                          ListRecis(step, options.selection, world, read));
  const std::string id = absl::StrCat("ckpt_", step.record().version.step);
  CKPTDB_ASSIGN_OR_RETURN(
      const std::unique_ptr<ArrayWriter> writer,
      NewRecisWriter(folder, options.folder, id, world, recis.arrays.arrays,
                     recis.blocks, recis.extra));
  CKPTDB_RETURN_IF_ERROR(
      WriteArrays(step, options.selection, recis.arrays, read, writer.get()));
  result->tensor_count = recis.arrays.tensors.size();
  result->table_count = recis.arrays.tables.size() / world;
  result->row_count = recis.arrays.rows();
  result->skipped_blobs = recis.arrays.blobs;
  return absl::OkStatus();
}

// Tables alone, as text.
absl::Status ExportText(const ExportOptions& options, const StepReader& step,
                        const ReadOptions& read, OutputFolder* folder,
                        ExportResult* result) {
  const RowText text =
      options.format == "csv" ? RowText::kCsv : RowText::kJsonLines;
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<StepTable> tables,
                          SelectTables(step, options.selection));
  if (tables.empty()) {
    return absl::NotFoundError(
        absl::StrCat(StepName(step.record().version.step),
                     " has no table that matches \"", options.selection.glob,
                     "\"; --", options.format, " writes tables alone"));
  }
  for (const StepTable& table : tables) {
    CKPTDB_ASSIGN_OR_RETURN(
        const uint64_t rows,
        WriteRowText(step, options.selection, table, text, read, folder));
    result->row_count += rows;
  }
  result->table_count = tables.size();
  return absl::OkStatus();
}

absl::StatusOr<ExportResult> ExportStep(const Context& context,
                                        const ExportOptions& options,
                                        const StepReader& step) {
  const Version& version = step.record().version;
  ProgressLine progress(context.terminal,
                        absl::StrCat("export: ", StepName(version.step)));
  ReadOptions read;
  read.cancelled = [] { return Interrupt::asked(); };
  read.progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
    progress.Update(done_bytes, all_bytes);
  };
  ExportResult result = {version, 0, 0, 0, 0, {}};
  CKPTDB_RETURN_IF_ERROR(CheckMatchesAny(step, options.selection.glob));
  CKPTDB_RETURN_IF_ERROR(CheckOutsideStore(options.folder, context.store));
  CKPTDB_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Open(options.folder, options.force));
  const bool is_text = options.format == "csv" || options.format == "jsonl";
  const auto write = is_text                     ? ExportText
                     : options.format == "recis" ? ExportRecis
                                                 : ExportArrays;
  CKPTDB_RETURN_IF_ERROR(write(options, step, read, folder.get(), &result));
  CKPTDB_RETURN_IF_ERROR(Interrupt::Check());
  CKPTDB_RETURN_IF_ERROR(folder->Commit());
  result.files = folder->written();
  return result;
}

void PrintExport(const ExportOptions& options, const ExportResult& result,
                 std::ostream* out) {
  *out << ToString(result.version) << ": " << FormatCount(result.tensor_count)
       << " tensors, " << FormatCount(result.table_count) << " tables of "
       << FormatCount(result.row_count) << " rows\n";
  if (result.skipped_blobs > 0) {
    *out << FormatCount(result.skipped_blobs)
         << " blobs are not exported; \"ckptdb items\" lists them\n";
  }
  TextTable table({">", ""}, 2);
  for (const OutputFolder::Written& file : result.files) {
    table.AddRow({FormatBytes(file.bytes),
                  Printable(absl::StrCat(options.folder, "/", file.name))});
  }
  *out << table.ToString();
}

Json ExportJson(const std::string& store, const ExportOptions& options,
                const ExportResult& result) {
  Json json = {{"store", store}};
  json.update(ToJson(result.version));
  json["format"] = options.format;
  json["folder"] = options.folder;
  json["tensors"] = result.tensor_count;
  json["tables"] = result.table_count;
  json["rows"] = result.row_count;
  json["skipped_blobs"] = result.skipped_blobs;
  json["files"] = Json::array();
  for (const OutputFolder::Written& file : result.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  return json;
}

class ExportCommand : public Command {
 public:
  ExportCommand()
      : Command({.name = "export",
                 .summary = "Write a step as NumPy, safetensors or text files",
                 .notes = std::string(kExportNotes) + kFilterHelp,
                 .examples =
                     "  ckptdb export latest --npz out -s /checkpoints/ctr\n"
                     "  ckptdb export 1000 'mlp.*' --safetensors out\n"
                     "  ckptdb export 1000 user --npy out --slots embedding "
                     "--where 'freq >= 3'\n"}) {}
  void AddArguments(CLI::App* app) override;
  absl::Status Run(const Context& context) override;

 private:
  void AddFormats(CLI::App* app);

  ExportOptions options_;
};

void ExportCommand::AddFormats(CLI::App* app) {
  auto* formats = app->add_option_group("Format", "one of");
  formats->require_option(1);
  constexpr std::pair<const char*, const char*> kFormats[] = {
      {"npz", "write one archive of NumPy"},
      {"npy", "write one NumPy file for each array"},
      {"safetensors", "write files of safetensors"},
      {"csv", "write tables, with a column for each element"},
      {"jsonl", "write tables, with a JSON object for each row"},
      {"recis", "write a checkpoint directory of RecIS"}};
  for (const auto& [format, meaning] : kFormats) {
    formats
        ->add_option_function<std::string>(
            absl::StrCat("--", format),
            [this, name = format](const std::string& folder) {
              options_.format = name;
              options_.folder = folder;
            },
            meaning)
        ->type_name("DIR");
  }
}

void ExportCommand::AddArguments(CLI::App* app) {
  AddStep(app, &options_.step);
  app->add_option("GLOB", options_.selection.glob,
                  "only items whose name matches; * ? [...] as in a shell")
      ->type_name("");
  AddFormats(app);
  app->add_option("--slots", options_.slots, "only these slots of tables: a,b")
      ->type_name("SLOTS");
  app->add_option("--ids", options_.ids,
                  absl::StrCat("only rows of ", kIdsHelp))
      ->type_name("IDS");
  app->add_option("--where", options_.selection.rows.where,
                  "only rows of tables that match this filter")
      ->type_name("FILTER");
  app->add_option("--shard-bytes", options_.shard_bytes,
                  "the largest file of safetensors; default: 5000000000")
      ->type_name("BYTES")
      ->check(AtLeast(1));
  app->add_option("--world", options_.world,
                  "the number of ranks of --recis; default: 1")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, kSlices));
  app->add_flag("--force", options_.force, "replace files that exist");
}

absl::Status ExportCommand::Run(const Context& context) {
  const Interrupt interrupt;
  if (options_.world != 0 && options_.format != "recis") {
    return absl::InvalidArgumentError("--world is only for --recis");
  }
  if (options_.shard_bytes != 0 && options_.format != "safetensors") {
    return absl::InvalidArgumentError(
        "--shard-bytes is only for --safetensors");
  }
  options_.selection.slots = SplitSlots(options_.slots);
  if (!options_.ids.empty()) {
    CKPTDB_ASSIGN_OR_RETURN(options_.selection.rows.ids,
                            IdList::ParseOrRead(options_.ids));
  }
  CKPTDB_ASSIGN_OR_RETURN(auto reader, OpenReader(context));
  CKPTDB_ASSIGN_OR_RETURN(auto step,
                          OpenStep(context, reader.get(), options_.step));
  auto result = ExportStep(context, options_, *step);
  if (absl::IsCancelled(result.status())) {
    return absl::CancelledError(
        "the export was interrupted; nothing was written");
  }
  if (!result.ok()) return ReadingStatus(result.status());
  if (context.json) {
    PrintJson(ExportJson(context.store, options_, *result), context.out);
  } else {
    PrintExport(options_, *result, context.out);
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> NewExport() {
  return std::make_unique<ExportCommand>();
}

}  // namespace ckptdb::tool
