#include "cli/shared/run_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "cli/shared/print_report.hpp"
#include "cli/shared/shipped_examples.hpp"
#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/handover/hand_over.hpp"
#include "traces/report/report.hpp"

namespace orrery::cli {
namespace {

constexpr std::int64_t kLargestSeed = 1'000'000'000'000'000'000;  // limit in scenario.proto

volatile std::sig_atomic_t interrupt_seen = 0, interrupts = 0;

void on_interrupt(int number) {
  interrupt_seen = number;
  interrupts = interrupts + 1;
}

constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};

/// Guard that makes SIGINT, SIGTERM and SIGHUP set a flag during its lifetime, so that the command
/// ends the run in order and deletes unfinished files.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    for (std::size_t i = 0; i < before_.size(); ++i) {
      sigaction(kInterrupts[i], &action, &before_[i]);
    }
  }
  ~InterruptGuard() {
    for (std::size_t i = 0; i < before_.size(); ++i) {
      sigaction(kInterrupts[i], &before_[i], nullptr);
    }
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  std::array<struct sigaction, std::size(kInterrupts)> before_{};
};

/// Operator of a live run with checkpoints, which passes the first interrupt on to the run, so that
/// the run ends with a checkpoint. The wait for the run's report ends after 25 s or at another
/// interrupt; interrupts within one second count once. Other calls go to the inner operator.
class Farewell : public Operator {
 public:
  explicit Farewell(Operator* inner) : inner_(inner) {}

  void request_approval(const ApprovalAsk& question) override {
    ensure(inner_ != nullptr, "a run that needs approval has an operator");
    inner_->request_approval(question);
  }
  std::vector<ApprovalVerdict> verdicts() override {
    return inner_ == nullptr ? std::vector<ApprovalVerdict>{} : inner_->verdicts();
  }
  bool is_halted() override { return inner_ != nullptr && inner_->is_halted(); }
  int signal() override {
    if (interrupt_seen == 0 || passed_on_) return 0;
    passed_on_ = true;
    counted_ = interrupts;
    fmt::print(stderr,
               "\nthe run ends after the current step, with a checkpoint; interrupt "
               "again to end it now\n");
    return interrupt_seen == SIGINT ? SIGINT : SIGTERM;  // SIGHUP would end the run at once
  }
  std::vector<std::string> end_run() override {
    return inner_ == nullptr ? std::vector<std::string>{} : inner_->end_run();
  }
  /// Returns true if the wait for the report is over. Called about ten times a second: the number
  /// of calls measures the time.
  bool over() {
    if (!passed_on_) return false;
    if (++polls_ <= kOneSecond) counted_ = interrupts;
    return polls_ > kPatience || interrupts > counted_;
  }

 private:
  static constexpr int kOneSecond = 10, kPatience = 250;  // Slurm waits 30 s before it kills
  Operator* const inner_;
  bool passed_on_ = false;
  int polls_ = 0;
  std::sig_atomic_t counted_ = 0;
};

/// Progress line on standard error that rewrites itself. poll() is called about ten times a second;
/// the number of calls measures the time, so that runs of less than a second print nothing.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void note(const Progress& progress) { newest_ = progress; }
  void poll() {
    constexpr int kPollsBeforeShown = 10;
    if (!terminal_ || ++polls_ < kPollsBeforeShown || newest_.steps() == 0) return;
    fmt::print(
        stderr, "\r\033[Kstep {} of {} ({:.0f}%), {:.1f} s {}", newest_.steps_done(),
        newest_.steps(),
        100.0 * static_cast<double>(newest_.steps_done()) / static_cast<double>(newest_.steps()),
        newest_.elapsed_s(), newest_.note());
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  static bool can_rewrite() {
    const char* const terminal = std::getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
           std::string_view(terminal) != "dumb";
  }

  const bool terminal_ = can_rewrite();
  bool shown_ = false;
  int polls_ = 0;
  Progress newest_;
};

}  // namespace

void RunOptions::add_file(CLI::App& command) {
  or_example(*command.add_option("FILE", file, "scenario (YAML), or the name of a shipped example"))
      .required();
}

void RunOptions::add_overrides(CLI::App& command) {
  // Appended, so that overrides from before the parsing stay.
  const auto add = [this](const std::vector<std::string>& settings) {
    overrides.insert(overrides.end(), settings.begin(), settings.end());
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--set", add, "change one value: cluster.nodes=128; repeatable")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

void RunOptions::add_seed(CLI::App& command) {
  const auto remember = [this](const std::int64_t& seed) {
    own.push_back(fmt::format("run.seed={}", seed));
  };
  whole_number(*command.add_option_function<std::int64_t>("--seed", remember,
                                                          "seed instead of the scenario's"),
               0, kLargestSeed)
      .type_name("N");
}

std::vector<std::string> RunOptions::all_overrides() const {
  std::vector<std::string> all = overrides;
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

LoadedScenario RunOptions::load() const { return load_scenario(file, all_overrides()); }

void RunOptions::add_record(CLI::App& command) {
  command.add_option("--record", record, "write the observation and decision log")
      ->type_name("LOG");
}

void RunOptions::add_json(CLI::App& command) {
  command.add_flag("--json", json, "print one JSON object instead of the summary");
}

int interrupted_code() { return 128 + interrupt_seen; }
bool was_interrupted() { return interrupt_seen != 0; }

namespace {

/// Returns the path of the worker's program.
std::string program_of(Worker worker) { return sibling_program(std::string(name_of(worker))); }

/// Runs `body` with a progress line and handlers for SIGINT, SIGTERM and SIGHUP, and returns its
/// result. Adds places to errors of bad input.
template <class Body>
auto watched(const SourceMap& places, bool shows_progress, Farewell* farewell, const Body& body) {
  interrupt_seen = 0;
  interrupts = 0;
  const InterruptGuard guard;
  ProgressLine line;
  const std::function<bool()> interrupted = [&line, shows_progress, farewell] {
    if (shows_progress) line.poll();
    return farewell != nullptr ? farewell->over() : interrupt_seen != 0;
  };
  const ProgressSink note = [&line](const Progress& progress) { line.note(progress); };
  try {
    return body(note, interrupted);
  } catch (const WorkerDied&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    throw with_place(error, places);
  }
}

}  // namespace

Report run(Worker worker, const RunRequest& request, const SourceMap& places, Operator* operated,
           ForkServer* server, Policy* policy) {
  // Questions and the line share the terminal.
  const bool asks = hand_over_mode(request.mode()) == HandOverMode::approve;
  Farewell farewell(operated);
  const bool saves = worker == Worker::live && request.scenario().has_checkpoints();
  if (saves) operated = &farewell;
  Farewell* const last = saves ? &farewell : nullptr;
  return watched(places, !asks, last, [&](const auto& note, const auto& interrupted) {
    if (server != nullptr) {
      return run_in_worker(*server, request, policy, note, interrupted, operated);
    }
    return run_in_worker(program_of(worker), request, policy, note, interrupted, operated);
  });
}

FuturesReport run_futures(Worker worker, const RunRequest& request, const FuturePolicies& policies,
                          const SourceMap& places) {
  return watched(places, true, nullptr, [&](const auto& note, const auto& interrupted) {
    if (policies) {
      return run_outside_futures(program_of(worker), request, policies, note, interrupted);
    }
    return orrery::run_futures(program_of(worker), request, note, interrupted);
  });
}

int print_report(const Report& report, bool json) {
  return print_report(report, json, json ? report_json(report) + "\n" : report_summary(report));
}

int print_report(const Report& report, bool json, const std::string& text) {
  for (const std::string& warning : report.warnings()) {
    if (json) fmt::print(stderr, "warning: {}\n", warning);  // the summary has them itself
  }
  fmt::print("{}", text);
  if (!report.hand_over().policy_failure().empty()) {
    fmt::print(stderr, "warning: the policies failed and were disabled at {:.1f} s: {}\n",
               report.hand_over().policy_failure_s(), report.hand_over().policy_failure());
  }
  const auto ended_run = [](const FailureReport& failure) { return !failure.has_resumed_s(); };
  const bool failed = std::any_of(report.failures().begin(), report.failures().end(), ended_run);
  return failed || report.has_unfinished() ? static_cast<int>(ErrorKind::goal_missed) : 0;
}

}  // namespace orrery::cli
