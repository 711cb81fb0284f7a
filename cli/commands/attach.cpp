// orrery attach: events of a live run as they happen, and the answers of its user to the questions
// of its policies.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/live_runs.hpp"
#include "cli/shared/run_orders.hpp"
#include "core/process.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::seconds kCommandPatience{10};

/// Handles a line that an attached user typed: a yes or a no to the oldest question, or to the
/// question of a given number. Prints the oldest question if others wait too.
void answer_question(const LiveRun& run, const std::string& line) {
  std::istringstream words(line);
  std::string verdict;
  std::uint64_t decision = 0;
  words >> verdict;
  const bool yes = verdict == "y" || verdict == "yes" || verdict == "approve";
  const bool no = verdict == "n" || verdict == "no" || verdict == "refuse";
  if (!yes && !no) {
    if (!verdict.empty()) fmt::print("expected approve or refuse, and the number of a decision\n");
    return;
  }
  const auto questions = run.list("questions");
  if (!(words >> decision)) {
    if (questions.empty()) return fmt::print("no decision waits for an answer\n");
    decision = questions[0].value("decision", std::uint64_t{0});
    if (questions.size() > 1) {
      fmt::print(stderr,
                 "{}: decision {}, the oldest of {} that wait: {}; add a number for another\n",
                 verdict, decision, questions.size(), questions[0].value("what", std::string()));
    }
  }
  leave_order(run, {{"verdict",
                     {{"decision", decision}, {"accepted", yes}, {"reason", "by an operator"}}}});
}

/// Reader of standard input. lines() returns the complete lines, and waits a little if no input has
/// arrived.
class Typed {
 public:
  std::vector<std::string> lines() {
    pollfd input{open_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&input, 1, live::kLookMs) != 1) return {};
    char bytes[4096];
    const ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    open_ = got > 0;
    if (got > 0) typed_.append(bytes, static_cast<std::size_t>(got));
    std::vector<std::string> whole;
    for (std::size_t end = 0; (end = typed_.find('\n')) != std::string::npos;) {
      whole.push_back(typed_.substr(0, end));
      typed_.erase(0, end + 1);
    }
    return whole;
  }

 private:
  bool open_ = true;
  std::string typed_;
};

/// Runs a shell command with the event as JSON in its last argument, and kills it after ten
/// seconds.
void run_command(const std::string& command, const std::string& event) {
  ChildProcess child("/bin/sh", {"-c", command + " \"$@\"", "event", event});
  if (!child.wait_for(kCommandPatience)) child.signal(SIGKILL);
  const ExitStatus status = child.wait();
  if (status.code != 0) fmt::print(stderr, "orrery: --exec: {}\n", status.description());
}

struct Attachment {
  bool json = false;
  std::string command;  ///< empty: none
};

void show(const LiveRun& run, const ordered_json& event, const Attachment& how) {
  ordered_json whole = event;
  whole["run"] = run.id;
  whole["scenario"] = run.text("scenario");
  const std::string text = whole.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (how.json) {
    fmt::print("{}\n", text);
  } else {
    fmt::print("{:10.2f} s  {}\n", event.value("at_s", 0.0), event.value("what", ""));
  }
  std::fflush(stdout);
  if (!how.command.empty()) run_command(how.command, text);
}

/// Announces the attachment, so that the run waits a little at its end. A failure loses nothing.
void say_attached(const LiveRun& run) {
  const std::string path = run.folder + "/" + live::kAttachedFile;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  futimens(file, nullptr);
  close(file);
}

/// Prints the newest past events and all later ones until the run has ended.
int attach(const std::string& name, const Attachment& how) {
  LiveRun run = find_run(name);
  std::uint64_t shown = 0;
  Typed typed;
  do {
    say_attached(run);
    run.read_status();
    const auto events = run.list("events");
    for (const auto& event : events) {
      const auto number = event.value("number", std::uint64_t{0});
      if (number <= shown) continue;
      shown = number;
      show(run, event, how);
    }
    for (const std::string& line : typed.lines()) answer_question(run, line);
  } while (run.is_living());
  if (!how.json) fmt::print("run {} has ended\n", run.id);
  return 0;
}

struct AttachOptions {
  std::string run;
  Attachment how;
};

}  // namespace

void add_attach(CLI::App& app, Action& chosen) {
  CLI::App* follow =
      app.add_subcommand("attach",
                         "show losses, recoveries, decisions and checkpoints of a live run; type "
                         "`approve` or `refuse` to answer its policies");
  const auto followed = std::make_shared<AttachOptions>();
  add_run_argument(*follow, followed->run, false);
  follow->add_flag("--json", followed->how.json, "print a line of JSON for each event");
  follow
      ->add_option("--exec", followed->how.command,
                   "run this for each event, with the event as JSON for its last argument")
      ->type_name("COMMAND");
  add_examples(*follow, {"orrery attach a1B2c3", "orrery attach a1B2c3 --exec ./page-me.sh"});
  follow->callback([followed, &chosen] {
    chosen = [followed] { return attach(followed->run, followed->how); };
  });
}

}  // namespace orrery::cli
