// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/options.h"

#include <CLI/CLI.hpp>
#include <map>

#include <ckptdb/schema/status.h>
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "train_ctr/crash_drill.h"
#include "train_ctr/file_source.h"
#include "train_ctr/text_formats.h"

namespace train_ctr {
namespace {

void AddRunOptions(CLI::App* app, Options* options) {
  app->add_option("--store", options->store, "Folder of the checkpoint store")
      ->required();
  app->add_option(
      "--steps", options->steps,
      "Train up to this step, and save it; needed without --follow");
  app->add_option("--save-every", options->save_every,
                  "Save each time this many steps are done; needed without "
                  "--follow and --config");
  app->add_flag("--sync", options->sync,
                "Train on only when a save is durable, not beside it");
  app->add_option("--keep", options->keep_steps, "Saved steps to keep")
      ->capture_default_str();
  app->add_option("--crash-at", options->crash_at,
                  "Kill the process after training STEP, or at POINT of its "
                  "save: STEP[:POINT]; points are " +
                      ListCrashPoints());
  app->add_option("--crash-rank", options->crash_rank,
                  "The rank whose process --crash-at kills")
      ->capture_default_str();
  app->add_option("--json", options->json, "Write the results to this file");
  app->add_option("--config", options->config,
                  "JSON file with options of the manager, on top of the flags; "
                  "see docs/manager.md");
  app->add_option("--eval-save-every", options->eval_save_every,
                  "Keep how far an evaluation of a saved step has come each "
                  "time this many batches are done; 0 never")
      ->capture_default_str();
  app->add_option("--eval-every", options->eval_every,
                  "Report the held-out loss each time this many steps are "
                  "done; 0 only at the end")
      ->capture_default_str();
}

// Adds the options of a job of several ranks, under mpirun.
void AddRankOptions(CLI::App* app, Options* options) {
  app->add_option("--deadline", options->deadline_seconds,
                  "Seconds that the ranks of a job wait for one another; a "
                  "rank that does not come ends the others with an error")
      ->capture_default_str();
  const std::map<std::string, Sharding> shardings = {
      {"slices", Sharding::kSlices}, {"modulo", Sharding::kModulo}};
  app->add_option("--sharding", options->trainer.sharding,
                  "How the rows of tables are divided among ranks: slices or "
                  "modulo")
      ->transform(CLI::CheckedTransformer(shardings).description(""))
      ->default_str("slices");
}

void AddResumeOptions(CLI::App* app, Options* options) {
  app->add_flag("--resume", options->resume,
                "Go on from the step saved last, or start when there is "
                "none");
  CLI::Option* step = app->add_option("--resume-step", options->resume_step,
                                      "Go on from this saved step instead");
  const std::map<std::string, ckptdb::SaveSpec::Abandoned> branches = {
      {"keep", ckptdb::SaveSpec::Abandoned::kKeep},
      {"remove", ckptdb::SaveSpec::Abandoned::kRemove}};
  app->add_option("--abandoned", options->abandoned,
                  "What becomes of the steps after the one of --resume-step, "
                  "with the next save: keep or remove")
      ->transform(CLI::CheckedTransformer(branches).description(""))
      ->needs(step)
      ->default_str("remove");
}

void AddDeltaOptions(CLI::App* app, Options* options) {
  CLI::Option* delta =
      app->add_flag("--delta", options->delta,
                    "Save of each table only what changed since the save "
                    "before it");
  app->add_option("--base-every", options->base_every,
                  "Save tables whole each time after this many saves, to "
                  "bound what a restore reads; 0 only when the store says so")
      ->needs(delta)
      ->capture_default_str();
}

void AddFollowOptions(CLI::App* app, Options* options) {
  CLI::Option* follow =
      app->add_flag("--follow", options->follow,
                    "Do not train: keep a copy of the model of a trainer that "
                    "saves to the store");
  // The program has all options of a trainer; a follower takes few of them.
  for (CLI::Option* other : app->get_options()) {
    const std::string name = other->get_name();
    if (name == "--help" || name == "--store" || name == "--json") continue;
    if (other != follow) follow->excludes(other);
  }
  app->add_option("--until-step", options->follow_options.until_step,
                  "Follow up to this step, not until the process is stopped")
      ->needs(follow);
  app->add_option("--poll-ms", options->follow_options.poll_ms,
                  "Look for a newer step after this many milliseconds")
      ->needs(follow)
      ->capture_default_str();
}

// "host", "cuda" or "cuda:N".
absl::StatusOr<std::optional<int>> ParseDevice(absl::string_view text) {
  if (text == "host") return std::optional<int>();
  absl::string_view number = text;
  if (!absl::ConsumePrefix(&number, "cuda")) number = "-";
  if (number.empty()) return std::optional<int>(0);
  int device = 0;
  if (absl::ConsumePrefix(&number, ":") && absl::SimpleAtoi(number, &device) &&
      device >= 0) {
    return std::optional<int>(device);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown device \"", text,
                   "\"; expected host, cuda, or cuda:N with the number of a "
                   "GPU"));
}

// Adds the options of a model in GPU memory.
void AddDeviceOptions(CLI::App* app, TrainerOptions* options) {
  CLI::Option* device =
      app->add_option_function<std::string>(
             "--device",
             [options](const std::string& text) {
               const auto parsed = ParseDevice(text);
               if (!parsed.ok()) {
                 throw CLI::ValidationError(
                     "--device", std::string(parsed.status().message()));
               }
               options->cuda_device = *parsed;
             },
             "Memory that has the model: host, or a GPU's, which then trains "
             "it: cuda or cuda:N. The state is the same bit for bit")
          ->default_str("host");
  app->add_option("--device-rows", options->device_rows,
                  "Rows of each table for which the GPU has memory")
      ->needs(device)
      ->capture_default_str();
}

void AddTrainerOptions(CLI::App* app, TrainerOptions* options) {
  app->add_option("--batch", options->batch, "Examples of a step")
      ->capture_default_str();
  app->add_option("--seed", options->seed, "Seed of everything random")
      ->capture_default_str();
  app->add_option("--dim", options->dim, "Floats of an embedding")
      ->capture_default_str();
  app->add_option("--hidden", options->hidden,
                  "Widths of the hidden layers, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--sparse-learning-rate", options->sparse_learning_rate,
                  "Learning rate of Adagrad, for the embeddings")
      ->capture_default_str();
  app->add_option("--dense-learning-rate", options->dense_learning_rate,
                  "Learning rate of Adam, for the perceptron")
      ->capture_default_str();
  app->add_option("--erase-after", options->erase_after_steps,
                  "Erase rows not seen for more than this many steps; 0 never")
      ->capture_default_str();
}

void AddLogOptions(CLI::App* app, Options* options) {
  CLI::Option* data = app->add_option("--data", options->data,
                                      "Click log; without it one is generated");
  app->add_option("--format", options->format,
                  "Format of the click log: criteo or movielens")
      ->needs(data);
  GeneratedLogOptions* generated = &options->generated;
  app->add_option("--holdout", generated->holdout,
                  "Part of the log, at its end, to evaluate on")
      ->capture_default_str();
  app->add_option("--shuffle", options->shuffle_examples,
                  "Examples of the shuffle buffer; 1 keeps the log's order")
      ->capture_default_str();
  app->add_option("--zipf-examples", generated->examples,
                  "Examples of an epoch of the generated log")
      ->capture_default_str();
  app->add_option("--zipf-users", generated->users,
                  "Users of the generated log")
      ->capture_default_str();
  app->add_option("--zipf-items", generated->items,
                  "Items of the generated log")
      ->capture_default_str();
  app->add_option("--zipf-exponent", generated->exponent,
                  "How much more frequent the first ids are; 0 not at all")
      ->capture_default_str();
}

absl::Status CheckAtLeast(absl::string_view flag, int64_t value,
                          int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", value, " is less than ", least));
}

absl::Status CheckFollowOptions(const FollowOptions& options) {
  CKPTDB_RETURN_IF_ERROR(
      CheckAtLeast("--until-step", options.until_step.value_or(0), 0));
  return CheckAtLeast("--poll-ms", options.poll_ms, 1);
}

}  // namespace

void AddOptions(CLI::App* app, Options* options) {
  AddRunOptions(app, options);
  AddRankOptions(app, options);
  AddResumeOptions(app, options);
  AddDeltaOptions(app, options);
  AddTrainerOptions(app, &options->trainer);
  AddDeviceOptions(app, &options->trainer);
  AddLogOptions(app, options);
  AddFollowOptions(app, options);
}

absl::Status CheckOptions(const Options& options) {
  if (options.follow) return CheckFollowOptions(options.follow_options);
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("--steps", options.steps, 1));
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("--save-every", options.save_every,
                                      options.config.empty() ? 1 : 0));
  CKPTDB_RETURN_IF_ERROR(
      CheckAtLeast("--eval-save-every", options.eval_save_every, 0));
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("--keep", options.keep_steps, 1));
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("--base-every", options.base_every, 0));
  CKPTDB_RETURN_IF_ERROR(CheckAtLeast("--eval-every", options.eval_every, 0));
  if (!(options.deadline_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--deadline ", options.deadline_seconds, " is not above 0 seconds"));
  }
  if (!options.data.empty() && options.format.empty()) {
    return absl::InvalidArgumentError(
        "--data needs --format criteo or --format movielens");
  }
  if (options.crash_at.empty()) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const CrashAt crash, ParseCrashAt(options.crash_at));
  if (crash.step > options.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("--crash-at ", options.crash_at, " is after the last of ",
                     options.steps, " steps"));
  }
  if (options.config.empty() && !crash.point.empty() &&
      crash.step % options.save_every != 0 && crash.step != options.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("--crash-at ", options.crash_at, ": step ", crash.step,
                     " is not saved, every ", options.save_every, " are"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const Options& options) {
  if (options.data.empty()) {
    GeneratedLogOptions generated = options.generated;
    generated.seed = options.trainer.seed;
    return GeneratedSource::Create(generated);
  }
  CKPTDB_ASSIGN_OR_RETURN(const Format format, ParseFormat(options.format));
  return FileSource::Open(options.data, format, options.generated.holdout);
}

}  // namespace train_ctr
