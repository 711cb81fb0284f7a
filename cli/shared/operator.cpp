#include "cli/shared/operator.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/shared/usage.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "core/schema/json.hpp"
#include "core/units.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/record/encoding.hpp"

namespace orrery::cli {
namespace {

volatile std::sig_atomic_t halt_seen = 0;

/// Operator who approves nothing and halts the decisions at SIGUSR1.
class Console : public Operator {
 public:
  Console() {
    halt_seen = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { halt_seen = 1; };
    sigaction(SIGUSR1, &action, &before_);
  }
  ~Console() override { sigaction(SIGUSR1, &before_, nullptr); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void request_approval(const ApprovalAsk&) override {
    throw Error(ErrorKind::internal, "the operator cannot answer questions");
  }
  std::vector<ApprovalVerdict> verdicts() override { return {}; }
  bool is_halted() override { return halt_seen != 0; }

 private:
  struct sigaction before_ {};
};

ApprovalVerdict answer(std::uint64_t decision, bool accepted, std::string reason) {
  ApprovalVerdict verdict;
  verdict.set_decision(decision);
  verdict.set_accepted(accepted);
  verdict.set_reason(std::move(reason));
  return verdict;
}

/// Returns the JSON argument of a hook.
std::string as_json(const ApprovalAsk& question) {
  nlohmann::ordered_json out;
  out["decision"] = question.decision();
  out["now_s"] = to_seconds(question.now());
  out["what"] = question.text();
  out["why"] = question.why();
  out["effective_at_step"] = question.record().at_step();
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Operator who leaves all questions to `orrery attach`, which reaches the run by its folder.
class Attended : public Console {
 public:
  void request_approval(const ApprovalAsk&) override {}
};

/// Operator that runs a shell command for every question, with the question as JSON in the last
/// argument. Exit code 0 is a yes. The command's output goes to standard error. At most kMostHooks
/// commands run at once; later questions wait. A question without an answer `timeout_s` after it
/// was asked is refused, and the command with all that it has started is killed (SIGTERM, 2 s later
/// SIGKILL).
class Hook : public Console {
 public:
  Hook(const std::string& command, double timeout_s)
      : script_("exec 1>&2\n" + command + " \"$@\""), timeout_s_(timeout_s) {}

  void request_approval(const ApprovalAsk& question) override {
    ++asked_;
    waiting_.push_back({question.decision(), now_s() + timeout_s_, as_json(question)});
    start_hooks();
  }

  std::vector<ApprovalVerdict> verdicts() override {
    std::vector<ApprovalVerdict> out;
    std::erase_if(running_, [&](Running& each) { return is_finished(each, out); });
    while (!waiting_.empty() && now_s() >= waiting_.front().deadline_s) {
      out.push_back(refuse_unanswered(waiting_.front().decision));
      waiting_.pop_front();
    }
    start_hooks();
    return out;
  }

  std::vector<std::string> end_run() override {
    std::vector<ApprovalVerdict> late;
    std::erase_if(running_, [&](Running& each) { return is_finished(each, late); });
    const auto open =
        static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(),
                                               [](const Running& each) { return !each.killed_s; }) +
                                 std::ssize(waiting_));
    waiting_.clear();
    kill_hooks();
    std::vector<std::string> warnings;
    if (unanswered_ > 0) {
      warnings.push_back(fmt::format(
          "--hook: expected an answer to each of {} questions within {:g} s, got none to {}: the "
          "decisions were refused and the commands killed; make the command answer in time, or "
          "set --hook-timeout",
          asked_, timeout_s_, unanswered_));
    }
    if (open > 0) {
      warnings.push_back(fmt::format(
          "--hook: {} of {} questions had no answer at the end of the run: the decisions were "
          "refused and the commands killed",
          open, asked_));
    }
    asked_ = unanswered_ = 0;
    return warnings;
  }

 private:
  static constexpr std::size_t kMostHooks = 4;
  static constexpr double kGraceS = 2;
  struct Waiting {
    std::uint64_t decision;
    double deadline_s;
    std::string argument;
  };
  struct Running {
    std::uint64_t decision;
    double deadline_s;
    std::optional<double> killed_s;  ///< instant of SIGTERM; its question is refused
    ChildProcess process;
  };

  double now_s() const {
    HostUse use;
    clock_.fill(use);
    return use.wall_s();
  }

  void start_hooks() {
    while (!waiting_.empty() && running_.size() < kMostHooks) {
      const Waiting& next = waiting_.front();
      running_.push_back(
          {next.decision, next.deadline_s, std::nullopt,
           ChildProcess("/bin/sh", {"-c", script_, "hook", next.argument}, ChildGroup::own)});
      waiting_.pop_front();
    }
  }

  /// Adds the verdict of a command that has ended or is too late to `out`. Returns true if the
  /// command is no longer needed.
  bool is_finished(Running& each, std::vector<ApprovalVerdict>& out) {
    if (each.killed_s) {
      if (now_s() < *each.killed_s + kGraceS) return false;
      each.process.signal(SIGKILL);
      return true;
    }
    if (const auto status = each.process.exit_status()) {
      out.push_back(
          answer(each.decision, status->code == 0, "the hook said " + status->description()));
      return true;
    }
    if (now_s() < each.deadline_s) return false;
    out.push_back(refuse_unanswered(each.decision));
    each.process.signal(SIGTERM);
    each.killed_s = now_s();
    return false;
  }

  ApprovalVerdict refuse_unanswered(std::uint64_t decision) {
    ApprovalVerdict verdict =
        answer(decision, false, fmt::format("the hook gave no answer within {:g} s", timeout_s_));
    verdict.set_unanswered(true);
    if (++unanswered_ == 1) {
      fmt::print(stderr,
                 "warning: --hook: expected an answer to decision {} within {:g} s, got none; the "
                 "decision is refused\n",
                 decision, timeout_s_);
    }
    return verdict;
  }

  /// Kills all commands, which share one grace period.
  void kill_hooks() {
    for (Running& each : running_) each.process.signal(SIGTERM);
    const double killed_s = now_s() + kGraceS;
    const auto has_ended = [](const Running& each) { return each.process.has_ended(); };
    while (now_s() < killed_s && !std::all_of(running_.begin(), running_.end(), has_ended)) {
      ::poll(nullptr, 0, 10);
    }
    for (Running& each : running_) each.process.signal(SIGKILL);
    running_.clear();
  }

  const std::string script_;
  const double timeout_s_;
  const HostMeter clock_;
  std::deque<Waiting> waiting_;
  std::deque<Running> running_;
  std::size_t asked_ = 0, unanswered_ = 0;
};

/// Operator at the terminal, who answers one question after the other on standard input.
class Terminal : public Console {
 public:
  void request_approval(const ApprovalAsk& question) override {
    waiting_.push_back(question);
    if (waiting_.size() == 1) put();
  }

  std::vector<ApprovalVerdict> verdicts() override {
    std::vector<ApprovalVerdict> out;
    while (!waiting_.empty()) {
      const std::optional<std::string> line = read_line();
      if (!line) break;
      const bool yes = *line == "y" || *line == "yes";
      out.push_back(answer(waiting_.front().decision(), yes, "by hand"));
      waiting_.pop_front();
      if (!waiting_.empty()) put();
    }
    return out;
  }

 private:
  void put() const {
    const ApprovalAsk& question = waiting_.front();
    fmt::print(stderr, "\nat {:.1f} s: {}\n  {}\napply it? [y/N] ", to_seconds(question.now()),
               question.text(), question.why());
    std::fflush(stderr);
  }

  /// Returns a complete line without blocking; nothing if none has been typed. The end of input is
  /// an empty line, and so a no.
  std::optional<std::string> read_line() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (::poll(&input, 1, 0) == 1) {
      char letter = '\n';
      if (::read(STDIN_FILENO, &letter, 1) == 1 && letter != '\n') {
        typed_ += letter;
        continue;
      }
      return std::exchange(typed_, {});
    }
    return std::nullopt;
  }

  std::deque<ApprovalAsk> waiting_;
  std::string typed_;
};

/// Returns true if /bin/sh runs `script` with `argument` to exit code 0; discards all output.
bool shell_agrees(const std::string& script, const std::string& argument) {
  return ChildProcess("/bin/sh", {"-c", "exec >/dev/null 2>&1\n" + script, "sh", argument})
             .wait()
             .code == 0;
}

/// Returns the first word of a command; empty if only a shell can determine it.
std::string plain_word(const std::string& command) {
  const std::size_t begin = command.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return {};
  const std::size_t end = std::min(command.find_first_of(" \t\n;|&<>", begin), command.size());
  const std::string word = command.substr(begin, end - begin);
  return word.find_first_of("\"'\\$`(){}*?[]~=!#") == std::string::npos ? word : std::string();
}

/// Throws a usage error if /bin/sh does not find the command of `hook`, or cannot parse `hook`:
/// such a hook would refuse every decision without a reason.
void check_hook(const std::string& hook) {
  const std::string word = plain_word(hook);
  if (!word.empty() && !shell_agrees("command -v -- \"$1\"", word)) {
    throw Error(ErrorKind::usage,
                fmt::format("--hook: expected a command that can be run, got '{}': there is no "
                            "'{}', or it is not executable",
                            hook, word));
  }
  if (!shell_agrees("/bin/sh -n -c \"$1\"", hook)) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--hook: expected a shell command, got '{}': /bin/sh cannot read it", hook));
  }
}

/// Throws a usage error if the run could not see the kill switch `file` appear.
void check_kill_switch(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const fs::path folder = fs::absolute(file).parent_path();
  if (!fs::is_directory(folder, unknown)) {
    throw Error(ErrorKind::usage,
                fmt::format("--kill-switch: expected a file in a folder that exists, got '{}': "
                            "there is no folder '{}'; make it, or correct the name",
                            file, folder.string()));
  }
  if (::access(folder.c_str(), R_OK | X_OK) != 0) {
    throw Error(ErrorKind::usage,
                fmt::format("--kill-switch: expected a file in a folder that can be read, "
                            "got '{}': '{}' cannot be read",
                            file, folder.string()));
  }
  if (fs::status(file, unknown).type() == fs::file_type::none) {
    throw Error(ErrorKind::usage,
                fmt::format("--kill-switch: expected the name of a file, existing or not, got "
                            "'{}', which cannot be checked: {}",
                            file, unknown.message()));
  }
  if (fs::is_directory(file, unknown)) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--kill-switch: expected the name of a file, got the folder '{}'", file));
  }
}

}  // namespace

void OperatorOptions::add(CLI::App& command, const std::string& default_on_policy_error,
                          double default_policy_timeout_s) {
  on_policy_error = default_on_policy_error;
  policy_timeout_s = default_policy_timeout_s;
  one_of(*command.add_option("--mode", mode,
                             "mode of the decisions: applied, only observed, or approved"),
         all_names<HandOverMode>())
      .capture_default_str();
  command
      .add_option("--hook", hook,
                  "approve: command with the decision as its argument; exit "
                  "code 0 is a yes")
      ->type_name("COMMAND");
  number(*command.add_option("--hook-timeout", hook_timeout_s,
                             "seconds after which a hook without an answer is killed and its "
                             "decision refused (default: 60 live, 600 in simulation)"),
         0.001, 86400)
      .type_name("S")
      ->needs("--hook");
  whole_number(*command.add_option("--decisions-per-hour", per_hour,
                                   "limit of the applied "
                                   "decisions"),
               1, 1'000'000)
      .type_name("N");
  command
      .add_option("--kill-switch", kill_switch,
                  "no decision is applied while this file exists; SIGUSR1 does the same for "
                  "the rest of the run")
      ->type_name("FILE");
  one_of(*command.add_option("--on-policy-error", on_policy_error,
                             "static: continue without the policies; stop: end the run"),
         all_names<OnPolicyError>())
      .capture_default_str();
  number(*command.add_option("--policy-timeout", policy_timeout_s,
                             "seconds for one call of the policies; then --on-policy-error "
                             "applies; 0: no limit"),
         0, 1e6)
      .type_name("S")
      ->capture_default_str();
}

void OperatorOptions::fill(RunRequest& request, bool waits) const {
  if (!hook.empty() && hand_over_mode(mode) != HandOverMode::approve) {
    throw Error(ErrorKind::usage,
                "--hook answers questions: add --mode approve, or leave --hook "
                "out");
  }
  if (attended && (hand_over_mode(mode) != HandOverMode::approve || waits)) {
    throw Error(ErrorKind::usage, "--attended needs --mode approve and a live run");
  }
  if (hand_over_mode(mode) == HandOverMode::approve && hook.empty() && !attended &&
      isatty(STDIN_FILENO) != 1) {
    throw Error(ErrorKind::usage,
                "--mode approve needs a terminal for its questions, or --hook COMMAND, or "
                "--attended for a live run whose questions `orrery attach` answers");
  }
  if (!hook.empty()) check_hook(hook);
  if (!kill_switch.empty()) check_kill_switch(kill_switch);
  request.set_mode(mode);
  request.set_policy_timeout(static_cast<std::int64_t>(1e9 * policy_timeout_s));
  const bool falls_back =
      find_named<OnPolicyError>(on_policy_error) == OnPolicyError::continue_static;
  const bool drives = hand_over_mode(mode) == HandOverMode::drive;
  if (drives && per_hour == 0 && kill_switch.empty() && !falls_back) return;
  HandOverOrder& order = *request.mutable_hand_over();
  order.set_decisions_per_hour(per_hour);
  order.set_kill_switch(kill_switch);
  order.set_wait_for_verdicts(waits);
  order.set_fall_back(falls_back);
  if (!hook.empty() && hook_timeout_s > 0) {
    order.set_patience(static_cast<std::int64_t>(1e9 * hook_timeout_s));
  }
}

std::unique_ptr<Operator> OperatorOptions::make_operator(bool waits) const {
  const double default_timeout_s = waits ? 600 : 60;
  if (hand_over_mode(mode) != HandOverMode::approve) return std::make_unique<Console>();
  if (attended) return std::make_unique<Attended>();
  if (hook.empty()) return std::make_unique<Terminal>();
  return std::make_unique<Hook>(hook, hook_timeout_s > 0 ? hook_timeout_s : default_timeout_s);
}

void OperatorApprover::request_approval(const Decision& decision, Nanos now) {
  ApprovalAsk question;
  question.set_decision(decision.id);
  question.set_now(now);
  question.set_text(trace_line(decision));
  question.set_why(decision.why);
  encode(decision, *question.mutable_record());
  operated_.request_approval(question);
}

std::vector<Verdict> OperatorApprover::verdicts() {
  std::vector<Verdict> verdicts;
  for (const ApprovalVerdict& each : operated_.verdicts()) {
    verdicts.push_back({each.decision(), each.accepted(), each.reason(), each.unanswered()});
  }
  return verdicts;
}

}  // namespace orrery::cli
