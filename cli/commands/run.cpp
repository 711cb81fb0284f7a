// orrery run: runs an unchanged PyTorch program whose process groups survive the loss of ranks.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/launch_words.hpp"
#include "cli/shared/program_policies.hpp"
#include "cli/shared/program_proof.hpp"
#include "cli/shared/program_report.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/program_status.hpp"
#include "cli/shared/program_takeover.hpp"
#include "cli/shared/usage.hpp"
#include "cli/shared/user_program.hpp"
#include "cli/shared/warm_ranks.hpp"
#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/schema/names.hpp"
#include "live/programs/policies/program_attempts.hpp"
#include "policies/run/threaded_policy.hpp"

namespace orrery::cli {
namespace {

constexpr int kTickMilliseconds = 50;
/// Restarts and replacements that a policy may order, without --restart and --replace.
constexpr std::uint32_t kDecidedLimit = 3;
constexpr int kInterrupted = 130;  ///< exit code after a signal before the first rank

struct ProgramOptions {
  std::optional<std::uint32_t> ranks, restarts, replacements;
  double heartbeat_s = 2;
  bool json = false, deals_data = false;
  std::string metrics;            ///< target of ProgramStatus
  std::string warm = "spares";    ///< WarmUse
  std::string sums = "memory";    ///< SumPath
  std::uint32_t in_flight = 0;    ///< --in-flight; 0: by the backend of a group
  std::uint32_t proof_steps = 0;  ///< --prove; 0: no proof
  ProgramPolicyOptions policies;
  std::vector<std::string> program;
  std::string taken_run;  ///< --take-over; empty: none
};

/// Runs the program, again after an attempt that a loss has ended, up to the limit of restarts.
void run_attempts(const Launch& launch, live::ProgramAttempts& attempts) {
  while (true) {
    attempts.start(nullptr);
    while (attempts.advance_run(kTickMilliseconds)) {}
    const Attempts& over = attempts.outcomes();
    if (!attempts.can_restart() || !live::wants_restart(over.back())) return;
    attempts.print_line(fmt::format("{}; restart {} of {}: all ranks start again",
                                    reason_of_end(over.back()), over.size(), launch.restarts));
  }
}

void print_tiers(const Launch& launch, std::size_t replacements, const ProgramOptions& options) {
  if (launch.ranks == 1) {
    fmt::print(stderr, "orrery run: 1 rank: no other one could go on after its loss\n");
  } else {
    fmt::print(stderr, "orrery run: {} ranks; the tier follows with the first process group\n",
               launch.ranks);
  }
  if (options.deals_data) {
    fmt::print(stderr,
               "orrery run: the examples of lost ranks go to the others from the next batch on, "
               "where a loader has a DistributedSampler or accelerate's BatchSamplerShard\n");
  }
  if (replacements > 0) {
    fmt::print(
        stderr,
        "orrery run: tier T2, at most {} new process{} for lost ranks, once the program "
        "calls orrery.torch.state() or its trainer begins; otherwise a lost rank stays lost\n",
        replacements, replacements == 1 ? "" : "es");
  }
  if (launch.restarts == 0) return;
  fmt::print(
      stderr,
      "orrery run: tier T1 where no rank can go on after a loss: all start again, at most {} "
      "time{}; the program resumes from its own checkpoint or its snapshot "
      "(orrery.torch.state)\n",
      launch.restarts, launch.restarts == 1 ? "" : "s");
}

void print_end(const Launch& launch, const Attempts& attempts, const ProgramOptions& options,
               const std::optional<ProgramPolicyReport>& policies) {
  if (!attempts.back().refused.empty()) {
    fmt::print(stderr,
               "error: {}: start the program again from its newest checkpoint, or let --restart "
               "do it\n",
               reason_of_end(attempts.back()));
  }
  if (options.json) {
    return fmt::print("{}\n", program_report_json(launch, attempts, policies).dump(2));
  }
  print_program_report(launch, attempts);
  if (!policies) return;
  fmt::print(stderr, "policies  {} ({}): {} decisions, {} applied\n",
             fmt::join(policies->names, ", "), policies->mode, policies->decisions,
             policies->applied);
  if (!policies->failure.empty()) {
    fmt::print(stderr, "warning: the policies failed and were disabled: {}\n", policies->failure);
  }
}

/// Settings of one run of a program.
struct PreparedRun {
  Launch launch;
  std::string executable;
  std::optional<ProgramPolicies> policies;
  std::uint32_t replacements = 0;
  bool decides = false;                    ///< policies decide about lost ranks
  std::unique_ptr<RunRecord> record = {};  ///< null: the run has no folder yet
  std::optional<SavedRun> taken = {};      ///< run that this process takes over
};

/// Reads the command line, and prepares the environment of the ranks. Without an executable there
/// is no such program.
PreparedRun prepare_run(const ProgramOptions& options) {
  PreparedRun run{.launch = read_launch(options.program, options.ranks),
                  .executable = {},
                  .policies = std::nullopt};
  run.record = lock_taken_run();
  if (run.record) run.taken = run.record->read_record();
  Launch& launch = run.launch;
  options.policies.require_policies();
  if (options.policies.has_policies()) {
    run.policies.emplace(options.policies, name_of(launch), launch.ranks);
  } else if (options.proof_steps > 0) {
    throw Error(ErrorKind::usage,
                "--prove: expected a policy that sets shares (--policy, --scenario), found none");
  }
  run.decides = run.policies && run.policies->decide_recovery();
  if (options.restarts || run.decides) launch.restarts = options.restarts.value_or(kDecidedLimit);
  run.replacements = options.replacements.value_or(run.decides ? kDecidedLimit : 0);
  run.executable = executable_of(launch);
  if (!run.executable.empty()) prepare_environment(launch);
  return run;
}

/// Runs the trials of --prove, and lets `attached` follow their result.
void prove_first(const PreparedRun& run, const ProgramOptions& options, AttachSettings& attached) {
  if (options.proof_steps == 0) return;
  const auto print_line = [](const std::string& line) {
    fmt::print(stderr, "orrery run: {}\n", line);
  };
  const StandardOutputAside aside(true);
  const ShareProof proof =
      prove_shares(run.launch, run.executable, attached, options.proof_steps, print_line);
  attached.weighs = proof.weighs;
  print_line(proof.line);
}

/// Returns the settings of the ranks, without the functions that start them and write the status.
live::ProgramSettings settings_of(const PreparedRun& run, const ProgramOptions& options) {
  live::ProgramSettings settings;
  settings.ranks = run.launch.ranks;
  settings.heartbeat_limit_s = options.heartbeat_s;
  settings.replacements = run.replacements;
  settings.replaces_by_order = run.decides;
  settings.announces_groups = !run.taken;
  settings.has_restarts = run.launch.restarts > 0;
  if (run.taken) {
    settings.remains = std::make_shared<const live::RunRemains>(run.taken->remains);
  }
  return settings;
}

void print_begin(const PreparedRun& run, const ProgramOptions& options) {
  if (run.taken) {
    fmt::print(stderr, "orrery run: takes over {}, whose `orrery run` was killed\n",
               name_of(run.launch));
  } else {
    print_tiers(run.launch, run.replacements, options);
  }
  if (!run.policies) return;
  fmt::print(stderr, "orrery run: policies {} in mode {}\n", fmt::join(run.policies->names(), ", "),
             options.policies.operation.mode);
}

/// Runs the prepared program to its end. `folder`: that of its snapshots.
int run_prepared(PreparedRun& run, const ProgramOptions& options, TemporaryFolder& folder) {
  const Launch& launch = run.launch;
  std::optional<ProgramPolicies>& policies = run.policies;
  AttachSettings attached{.snapshots = folder.path_of("snapshots"),
                          .deals_data = options.deals_data,
                          .has_policies = options.policies.has_policies(),
                          .sums = named<SumPath>(options.sums),
                          .in_flight = options.in_flight};
  if (run.taken) {
    attached.weighs = run.taken->weighs;
  } else {
    prove_first(run, options, attached);
  }
  attached.outlives_run = true;
  folder.share_lock();
  if (policies) policies->offer_plugins(folder.path_of("."));
  live::ProgramSettings settings = settings_of(run, options);
  ProgramStatus status(name_of(launch), policies ? options.policies.operation.mode : "",
                       policies ? policies->names() : std::vector<std::string>{}, options.metrics,
                       run.taken ? run.taken->folder : "", run.taken ? run.taken->began_s : 0);
  status.share_lock();
  if (!run.record) run.record = std::make_unique<RunRecord>(status.folder());
  SavedRun saved = run.taken ? *run.taken : started_run(status.folder(), folder.path_of(""));
  saved.weighs = attached.weighs;
  live::ProgramAttempts* running = nullptr;
  settings.print_line = [&status](const std::string& line) {
    fmt::print(stderr, "orrery run: {}\n", line);
    status.add_line(line);
  };
  settings.signal = [&status, &running, &run, &saved, &folder] {
    saved.remains = running->remains();
    saved.attempt = attempt_environment();
    run.record->write_record(saved);
    status.claim_lock();
    folder.claim_lock();
    status.publish_status(running->current());
    const int stop = status.obey_stop(*running->current());
    return stop != 0 ? stop : drain_signal();
  };
  const SignalWatch watch;
  std::optional<StandardOutputAside> aside(std::in_place, options.json);
  WarmRanks ranks(launch, run.executable, attached, folder.path_of("."), settings.print_line);
  settings.start = [&ranks](const live::RankStart& start) { return ranks.start_rank(start); };
  const WarmUse warm = find_named<WarmUse>(options.warm).value_or(WarmUse::spares);
  const bool starts_again = launch.restarts > 0 || run.replacements > 0;
  if (warm == WarmUse::all || (warm == WarmUse::spares && starts_again)) {
    if (!ranks.start_process(run.taken ? WarmUse::spares : warm)) return kInterrupted;
  }
  live::ProgramAttempts attempts(settings, launch.restarts, prepare_attempt);
  running = &attempts;
  std::optional<ProgramPolicyReport> decided;
  if (policies) {
    decided = policies->run(attempts, status);
  } else {
    run_attempts(launch, attempts);
  }
  aside.reset();
  print_end(launch, attempts.outcomes(), options, decided);
  return attempts.outcomes().back().exit_code;
}

int run_program(const ProgramOptions& options) {
  if (!options.taken_run.empty()) exec_successor(options.taken_run);
  if (options.program.empty()) {
    throw Error(ErrorKind::usage,
                "PROGRAM: expected a program with its arguments after --, found none; for example: "
                "orrery run -n 4 -- python train.py");
  }
  PreparedRun run = prepare_run(options);
  if (run.executable.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               run.launch.command.front());
    return kProgramNotFound;
  }
  print_begin(run, options);
  if (run.taken) {
    TemporaryFolder folder(run.taken->snapshots, TemporaryFolder::Taken());
    return run_prepared(run, options, folder);
  }
  TemporaryFolder folder("orrery-snapshots");
  return run_prepared(run, options, folder);
}

int run(const ProgramOptions& options) {
  const int code = run_program(options);
  if (!ThreadedPolicy::has_abandoned_threads()) return code;
  std::fflush(nullptr);
  _exit(code);  // a policy that was given up still uses objects of this process
}

void declare(CLI::App& command, const std::shared_ptr<ProgramOptions>& options) {
  whole_number(*command.add_option("-n,--ranks", options->ranks,
                                   "ranks to start on this machine; default: 1, or torchrun's "
                                   "--nproc-per-node"),
               1, 4096)
      .type_name("N");
  number(*command.add_option("--heartbeat-timeout", options->heartbeat_s,
                             "seconds without a heartbeat after which a rank counts as lost and "
                             "is killed"),
         0.5, 86400)
      .type_name("S")
      ->capture_default_str();
  whole_number(*command.add_option("--restart", options->restarts,
                                   "start all ranks again, at most this often, if no rank can go "
                                   "on; default: 0, torchrun's --max-restarts, or 3 if a policy "
                                   "decides about lost ranks"),
               0, 1000000)
      .type_name("N");
  whole_number(*command.add_option("--replace", options->replacements,
                                   "start a new process for a lost rank, at most this often, if "
                                   "the program calls orrery.torch.state() or has a Trainer of "
                                   "transformers or Lightning; default: 0, or 3 if a policy "
                                   "decides about lost ranks"),
               0, 1000000)
      .type_name("N");
  one_of(*command.add_option("--warm", options->warm,
                             "ranks that are forked from a process that has imported PyTorch: "
                             "spares (those of --replace and --restart), all, none"),
         all_names<WarmUse>());
  add_sums_option(command, options->sums);
  whole_number(*command.add_option("--in-flight", options->in_flight,
                                   "operations of a group that may be in flight at a rank "
                                   "(default: 2 with NCCL, 1 with Gloo)"),
               1, 2)
      .type_name("N");
  whole_number(*command.add_option("--prove", options->proof_steps,
                                   "first run this many steps with equal and with unequal shares "
                                   "of the examples, and refuse shares that change the gradients"),
               1, 1000)
      .type_name("STEPS");
  command.add_flag("--deal-data", options->deals_data,
                   "give the examples of lost ranks to the others, in larger batches, where a "
                   "loader has a DistributedSampler or accelerate's BatchSamplerShard");
  command
      .add_option("--metrics", options->metrics,
                  "write metrics for Prometheus about once a second, or serve them at a socket")
      ->type_name("FILE|unix:PATH");
  command.add_flag("--json", options->json,
                   "print the report as one JSON object; the program prints to standard error");
  command.add_option("PROGRAM", options->program,
                     "program with its arguments, after --: python train.py ... or torchrun ... "
                     "train.py ...");
  command
      .add_option("--take-over", options->taken_run,
                  "take over a program whose `orrery run` was killed, with the options and the "
                  "program of its command line: the id or the name of the run (orrery runs)")
      ->type_name("RUN");
  options->policies.add(command);
  add_examples(command, {"orrery run -n 4 -- python train.py --lr 3e-4",
                         "orrery run -n 4 --policy recover --policy checkpoint-interval "
                         "--record run.log -- python train.py",
                         "orrery run -- torchrun --nproc-per-node 4 train.py",
                         "orrery run --take-over train.py"});
}

}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<ProgramOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "run a PyTorch program whose process groups survive the loss of ranks");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace orrery::cli
