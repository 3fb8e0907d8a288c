// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/options.h"

#include <ckptdb/schema/status.h>

#include <CLI/CLI.hpp>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "train_ctr/crash_drill.h"

namespace train_ctr {
namespace {

// Adds an option that shows its default.
template <typename Value>
CLI::Option* Add(CLI::App* app, const char* name, Value* value,
                 const std::string& help) {
  return app->add_option(name, *value, help)->capture_default_str();
}

void AddRunOptions(CLI::App* app, Options* options) {
  CheckpointOptions* const checkpoint = &options->checkpoint;
  app->add_option("--store", checkpoint->store,
                  "Folder of the checkpoint store")
      ->required();
  app->add_option(
      "--steps", options->steps,
      "Train up to this step, and save it; needed without --follow");
  app->add_option("--save-every", checkpoint->save_every,
                  "Save each time this many steps are done; needed without "
                  "--follow and --config");
  app->add_flag("--sync", checkpoint->sync,
                "Train on only when a save is durable, not beside it");
  Add(app, "--keep", &checkpoint->keep_steps, "Saved steps to keep");
  app->add_option("--crash-at", options->crash_at,
                  "Kill the process after training STEP, or at POINT of its "
                  "save: STEP[:POINT]; points are " +
                      ListCrashPoints());
  Add(app, "--crash-rank", &options->crash_rank,
      "The rank whose process --crash-at kills");
  app->add_option("--json", options->json, "Write the results to this file");
  app->add_option("--config", checkpoint->config,
                  "JSON file with options of the manager, on top of the flags; "
                  "see docs/manager.md");
  Add(app, "--eval-save-every", &checkpoint->eval_save_every,
      "Keep how far an evaluation of a saved step has come each time this many "
      "batches are done; 0 never");
  Add(app, "--eval-every", &options->eval_every,
      "Report the held-out loss each time this many steps are done; 0 only at "
      "the end");
}

// Adds the options of a job of several ranks, under mpirun.
void AddRankOptions(CLI::App* app, Options* options) {
  Add(app, "--deadline", &options->deadline_seconds,
      "Seconds that the ranks of a job wait for one another; a rank that does "
      "not come ends the others with an error");
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
  app->add_option("--abandoned", options->checkpoint.abandoned,
                  "What becomes of the steps after the one of --resume-step, "
                  "with the next save: keep or remove")
      ->transform(CLI::CheckedTransformer(branches).description(""))
      ->needs(step)
      ->default_str("remove");
  CLI::Option* delta =
      app->add_flag("--delta", options->checkpoint.delta,
                    "Save of each table only what changed since the save "
                    "before it");
  Add(app, "--base-every", &options->checkpoint.base_every,
      "Save tables whole each time after this many saves, to bound what a "
      "restore reads; 0 only when the store says so")
      ->needs(delta);
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
  Add(app, "--poll-ms", &options->follow_options.poll_ms,
      "Look for a newer step after this many milliseconds")
      ->needs(follow);
}

// "host", "cuda" or "cuda:N".
absl::StatusOr<std::optional<int>> ParseDevice(absl::string_view text) {
  if (text == "host") return std::optional<int>();
  if (text == "cuda") return std::optional<int>(0);
  absl::string_view number = text;
  int device = 0;
  if (absl::ConsumePrefix(&number, "cuda:") &&
      absl::SimpleAtoi(number, &device) && device >= 0) {
    return std::optional<int>(device);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown device \"", text,
                   "\"; expected host, cuda, or cuda:N with the number of a "
                   "GPU"));
}

// Adds the options of a model in GPU memory.
void AddDeviceOptions(CLI::App* app, TrainerOptions* options) {
  const auto set = [options](const std::string& text) {
    const auto parsed = ParseDevice(text);
    if (!parsed.ok()) {
      throw CLI::ValidationError("--device",
                                 std::string(parsed.status().message()));
    }
    options->cuda_device = *parsed;
  };
  CLI::Option* device =
      app->add_option_function<std::string>(
             "--device", set,
             "Memory that has the model: host, or a GPU's, which then trains "
             "it: cuda or cuda:N. The state is the same bit for bit")
          ->default_str("host");
  Add(app, "--device-rows", &options->device_rows,
      "Rows of each table for which the GPU has memory")
      ->needs(device);
}

void AddTrainerOptions(CLI::App* app, TrainerOptions* options) {
  Add(app, "--batch", &options->batch, "Examples of a step");
  Add(app, "--seed", &options->seed, "Seed of everything random");
  Add(app, "--dim", &options->dim, "Floats of an embedding");
  Add(app, "--hidden", &options->hidden,
      "Widths of the hidden layers, separated by commas")
      ->delimiter(',');
  Add(app, "--sparse-learning-rate", &options->sparse_learning_rate,
      "Learning rate of Adagrad, for the embeddings");
  Add(app, "--dense-learning-rate", &options->dense_learning_rate,
      "Learning rate of Adam, for the perceptron");
  Add(app, "--erase-after", &options->erase_after_steps,
      "Erase rows not seen for more than this many steps; 0 never");
}

void AddLogOptions(CLI::App* app, Options* options) {
  CLI::Option* data = app->add_option("--data", options->data,
                                      "Click log; without it one is generated");
  app->add_option("--format", options->format,
                  "Format of the click log: criteo or movielens")
      ->needs(data);
  GeneratedLogOptions* generated = &options->generated;
  Add(app, "--holdout", &generated->holdout,
      "Fraction of the log to evaluate on, from its end");
  Add(app, "--shuffle", &options->shuffle_examples,
      "Examples of the shuffle buffer; 1 keeps the log's order");
  Add(app, "--zipf-examples", &generated->examples,
      "Examples of an epoch of the generated log");
  Add(app, "--zipf-users", &generated->users, "Users of the generated log");
  Add(app, "--zipf-items", &generated->items, "Items of the generated log");
  Add(app, "--zipf-exponent", &generated->exponent,
      "How much more frequent the first ids are; 0 not at all");
}

absl::Status CheckCrash(const Options& options) {
  if (options.crash_at.empty()) return absl::OkStatus();
  CKPTDB_ASSIGN_OR_RETURN(const CrashAt crash, ParseCrashAt(options.crash_at));
  if (crash.step > options.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("--crash-at ", options.crash_at, " is after the last of ",
                     options.steps, " steps"));
  }
  const int64_t every = options.checkpoint.save_every;
  if (options.checkpoint.config.empty() && !crash.point.empty() &&
      crash.step % every != 0 && crash.step != options.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("--crash-at ", options.crash_at, ": step ", crash.step,
                     " is not saved, every ", every, " are"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddOptions(CLI::App* app, Options* options) {
  AddRunOptions(app, options);
  AddRankOptions(app, options);
  AddResumeOptions(app, options);
  AddTrainerOptions(app, &options->trainer);
  AddDeviceOptions(app, &options->trainer);
  AddLogOptions(app, options);
  AddFollowOptions(app, options);
}

absl::Status CheckOptions(const Options& options) {
  struct Least {
    bool when_following;
    const char* flag;
    int64_t value;
    int64_t least;
  };
  const FollowOptions& follow = options.follow_options;
  const CheckpointOptions& checkpoint = options.checkpoint;
  const Least bounds[] = {
      {true, "--until-step", follow.until_step.value_or(0), 0},
      {true, "--poll-ms", follow.poll_ms, 1},
      {false, "--steps", options.steps, 1},
      {false, "--save-every", checkpoint.save_every,
       checkpoint.config.empty() ? 1 : 0},
      {false, "--eval-save-every", checkpoint.eval_save_every, 0},
      {false, "--keep", checkpoint.keep_steps, 1},
      {false, "--base-every", checkpoint.base_every, 0},
      {false, "--eval-every", options.eval_every, 0}};
  for (const Least& bound : bounds) {
    if (bound.when_following != options.follow || bound.value >= bound.least) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        bound.flag, " ", bound.value, " is less than ", bound.least));
  }
  if (options.follow) return absl::OkStatus();
  if (!(options.deadline_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--deadline ", options.deadline_seconds, " is not above 0 seconds"));
  }
  if (!options.data.empty() && options.format.empty()) {
    return absl::InvalidArgumentError(
        "--data needs --format criteo or --format movielens");
  }
  return CheckCrash(options);
}

absl::StatusOr<std::unique_ptr<Log>> OpenLog(const Options& options) {
  if (options.data.empty()) {
    GeneratedLogOptions generated = options.generated;
    generated.seed = options.trainer.seed;
    return NewGeneratedLog(generated);
  }
  CKPTDB_ASSIGN_OR_RETURN(const Format format, ParseFormat(options.format));
  return OpenFileLog(options.data, format, options.generated.holdout);
}

}  // namespace train_ctr
