#include "cli/operator.hpp"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <deque>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "core/schema/json.hpp"
#include "core/units.hpp"

namespace orrery::cli {
namespace {

volatile std::sig_atomic_t halt_seen = 0;

/// Nobody to ask; SIGUSR1 halts.
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

  void ask(const ApprovalAsk&) override { throw Error(ErrorKind::internal, "nobody to ask"); }
  std::vector<ApprovalVerdict> verdicts() override { return {}; }
  bool halted() override { return halt_seen != 0; }

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

/// What a hook gets as its argument.
std::string as_json(const ApprovalAsk& question) {
  nlohmann::ordered_json out;
  out["decision"] = question.decision();
  out["now_s"] = to_seconds(question.now());
  out["what"] = question.text();
  out["why"] = question.why();
  out["effective_at_step"] = question.record().effective_at_step();
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Runs a command for every question, with the question as JSON for its last argument: exit code 0
/// is a yes. What it prints goes to standard error.
class Hook : public Console {
 public:
  explicit Hook(const std::string& command) : script_("exec 1>&2\n" + command + " \"$@\"") {}

  void ask(const ApprovalAsk& question) override {
    running_.emplace_back(question.decision(),
                          ChildProcess("/bin/sh", {"-c", script_, "hook", as_json(question)}));
  }

  std::vector<ApprovalVerdict> verdicts() override {
    std::vector<ApprovalVerdict> out;
    std::erase_if(running_, [&out](auto& each) {
      const auto status = each.second.poll();
      if (!status) return false;
      out.push_back(answer(each.first, status->code == 0, "the hook said " + status->describe()));
      return true;
    });
    return out;
  }

 private:
  const std::string script_;
  std::deque<std::pair<std::uint64_t, ChildProcess>> running_;
};

/// Asks whoever sits at standard input, one question after the other.
class Terminal : public Console {
 public:
  void ask(const ApprovalAsk& question) override {
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

  /// A whole line, if one is there; an end of input is an empty line, and so a no.
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

}  // namespace

void OperatorOptions::add(CLI::App& command, const std::string& default_on_policy_error) {
  on_policy_error = default_on_policy_error;
  command.add_option("--mode", mode, "what decisions do: applied, only watched, or asked about")
      ->type_name("drive|shadow|approve")
      ->check(CLI::IsMember({"drive", "shadow", "approve"}));
  command.add_option("--hook", hook, "approve: exit code 0 is a yes; the decision is its argument")
      ->type_name("COMMAND");
  command.add_option("--decisions-per-hour", per_hour, "apply at most so many")
      ->type_name("N")
      ->check(CLI::Range(1u, 1'000'000u));
  command.add_option("--kill-switch", kill_switch,
                     "while this file is there nothing is applied; SIGUSR1 does the same for good")
      ->type_name("FILE");
  command
      .add_option("--on-policy-error", on_policy_error,
                  "static: go on without the policies; stop: end the run")
      ->type_name("static|stop")
      ->check(CLI::IsMember({"static", "stop"}));
}

void OperatorOptions::fill(RunRequest& request, bool waits) const {
  if (!hook.empty() && mode != "approve") {
    throw Error(ErrorKind::usage, "--hook answers questions: it needs --mode approve");
  }
  if (mode == "approve" && hook.empty() && isatty(STDIN_FILENO) != 1) {
    throw Error(ErrorKind::usage, "--mode approve needs a terminal to ask at, or --hook COMMAND");
  }
  request.set_mode(mode);
  const bool falls_back = on_policy_error == "static";
  if (mode == "drive" && per_hour == 0 && kill_switch.empty() && !falls_back) return;
  HandOverOrder& order = *request.mutable_hand_over();
  order.set_decisions_per_hour(per_hour);
  order.set_kill_switch(kill_switch);
  order.set_wait_for_verdicts(waits);
  order.set_fall_back(falls_back);
}

std::unique_ptr<Operator> OperatorOptions::make() const {
  if (mode != "approve") return std::make_unique<Console>();
  if (hook.empty()) return std::make_unique<Terminal>();
  return std::make_unique<Hook>(hook);
}

}  // namespace orrery::cli
