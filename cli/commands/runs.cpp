// orrery runs, status, attach, set, drain, stop: commands about live runs of this user, for another
// terminal. Each run publishes its status in a folder of its own, and reads orders from there.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/cluster_status.hpp"
#include "cli/shared/help.hpp"
#include "core/error.hpp"
#include "core/process.hpp"
#include "core/schema/names.hpp"
#include "core/schema/yaml_loader.hpp"
#include "live/run/files/run_files.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/run/registry.hpp"
#include "topologies/part.hpp"
#include "traces/scenario.pb.h"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::chrono::seconds kCommandPatience{10};
constexpr int kMostOrders = 10000;
constexpr int kMostLooks = 40;    // looks for the answer to an order, live::kLookMs apart
constexpr double kLongCallS = 1;  // shorter calls of policies are not shown

/// Live run as its folder shows it.
struct LiveRun {
  std::string id;  ///< end of the folder's name
  std::string folder;
  ordered_json status;  ///< null: the run has not published a status yet
  std::string text(const char* key) const {
    return status.is_object() ? status.value(key, std::string("-")) : "-";
  }
  /// Returns true for a run of `orrery cluster`.
  bool is_cluster() const { return text("kind") == kClusterKind; }
  template <class Number>
  Number number(const char* key) const {
    return status.is_object() && status.contains(key) && status[key].is_number()
               ? status[key].get<Number>()
               : Number{};
  }
};

/// Returns true if the folder belongs to this user, has a run's marker, and a living run has locked
/// it.
bool is_run(const fs::path& folder) {
  struct stat status {};
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0) return false;
  const bool ours = fstat(opened, &status) == 0 && status.st_uid == geteuid() &&
                    faccessat(opened, live::kRunMarker, R_OK, AT_SYMLINK_NOFOLLOW) == 0;
  const bool living = ours && flock(opened, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(opened);
  return living;
}

ordered_json read_status(const std::string& folder) {
  std::ifstream file(folder + "/" + live::kStatusFile);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  ordered_json status = ordered_json::parse(text, nullptr, false);
  return status.is_discarded() ? ordered_json() : status;
}

std::vector<LiveRun> find_runs() {
  std::vector<LiveRun> runs;
  std::error_code failure;
  for (fs::directory_iterator at(live::run_parent(), failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(live::kRunPrefix) || !is_run(at->path())) continue;
    runs.push_back(
        {name.substr(std::strlen(live::kRunPrefix)), at->path(), read_status(at->path())});
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return runs;
}

/// Returns the run with this id, prefix of an id, or scenario name; the only run if no name is
/// given.
LiveRun find_run(const std::string& name) {
  std::vector<LiveRun> runs = find_runs();
  std::vector<LiveRun> fitting;
  for (const LiveRun& run : runs) {
    const bool exact = run.id == name;
    if (exact) return run;
    if (name.empty() || run.id.starts_with(name) || run.text("scenario") == name) {
      fitting.push_back(run);
    }
  }
  if (fitting.size() == 1) return fitting[0];
  std::string known;
  for (const LiveRun& run : runs) known += fmt::format(" {} ({})", run.id, run.text("scenario"));
  if (runs.empty()) known = " none";
  throw Error(ErrorKind::usage,
              fmt::format("expected a live run of this user, by its id or its scenario's name, got "
                          "'{}'{}; there are:{}",
                          name, fitting.size() > 1 ? ", which matches several" : "", known));
}

std::string saved(const LiveRun& run) {
  const auto step =
      run.status.is_object() ? run.status.value("saved_step", ordered_json()) : ordered_json();
  return step.is_number() ? fmt::format("step {}", step.get<std::uint64_t>()) : "none";
}

std::string delayed(const LiveRun& run) {
  const auto delay = run.number<double>("delay_s");
  return delay > 0 ? fmt::format(", this step is delayed by {} s", delay) : "";
}

int list_runs(bool json) {
  const std::vector<LiveRun> runs = find_runs();
  if (json) {
    ordered_json out = ordered_json::array();
    for (const LiveRun& run : runs) {
      ordered_json each = run.status.is_object() ? run.status : ordered_json::object();
      each["run"] = run.id;
      each.erase("events");
      out.push_back(each);
    }
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  if (runs.empty()) fmt::print("no live run of this user\n");
  for (const LiveRun& run : runs) {
    if (run.is_cluster()) {
      fmt::print("{}  {:<24} {:<9} {} ({}), {} waiting, {} running\n", run.id,
                 run.text("scenario"), run.text("phase"), run.text("policy"), run.text("mode"),
                 run.number<std::uint64_t>("waiting"), run.number<std::uint64_t>("running"));
      continue;
    }
    fmt::print("{}  {:<24} {:<9} step {} of {}, {} lost, checkpoint {}\n", run.id,
               run.text("scenario"), run.text("phase"), run.number<std::uint64_t>("step"),
               run.number<std::uint64_t>("steps"), run.number<std::uint64_t>("losses"), saved(run));
  }
  return 0;
}

/// Prints a planned removal: the part, its state, and the return if that is stated.
void print_removal(const ordered_json& part) {
  const auto moment = [&part](const std::string& key) -> std::string {
    const auto at = part.find(key + "_s"), at_step = part.find(key + "_step");
    if (at != part.end() && at->is_number()) return fmt::format("at {:.1f} s", at->get<double>());
    if (at_step == part.end() || !at_step->is_number()) return "";
    return fmt::format("before step {}", at_step->get<std::uint64_t>());
  };
  const std::string back = moment("back_at");
  const std::string state =
      part.value("removed", false) ? "is removed as announced" : "is to be removed " + moment("at");
  fmt::print("  {} {}{}{}\n", part.value("part", "-"), state, back.empty() ? "" : "; back ", back);
}

void print_ranks(const LiveRun& run) {
  for (const auto& rank : run.status.value("ranks", ordered_json::array())) {
    fmt::print("  rank {:<4} {:<8} pid {:<8} step {}, micro-batch {}\n", rank.value("rank", 0u),
               rank.value("state", "-"), rank.value("pid", 0), rank.value("step", 0u),
               rank.value("micro_batches", 0u));
  }
}

/// Prints which policies have owed an answer for longer than kLongCallS.
void print_owed_answer(const LiveRun& run) {
  const double waiting_s = run.number<double>("policy_waiting_s");
  if (waiting_s < kLongCallS) return;
  const std::string asked = run.text("policy_asked");
  fmt::print("  {} {} owed an answer for {:.1f} s{}\n", asked,
             asked.starts_with("the policies") ? "have" : "has", waiting_s,
             find_named<HandOverMode>(run.text("mode")) == HandOverMode::shadow
                 ? "; the run does not wait for it"
                 : "");
}

/// Prints the status of a program of `orrery run`, which has no batch and no loss.
void print_program(const LiveRun& run) {
  fmt::print("  step {}, {:.1f} s; median step {:.3f} s, ranks lost {}, missing {}, snapshot {}\n",
             run.number<std::uint64_t>("step"), run.number<double>("elapsed_s"),
             run.number<double>("step_time_s"), run.number<std::uint64_t>("losses"),
             run.number<std::uint64_t>("ranks_missing"), saved(run));
  print_owed_answer(run);
  print_ranks(run);
}

/// Prints the decisions that wait for an answer.
void print_questions(const LiveRun& run) {
  for (const auto& open : run.status.value("questions", ordered_json::array())) {
    fmt::print("  decision {} waits for an answer since {:.1f} s: {}: {}\n",
               open.value("decision", std::uint64_t{0}), open.value("at_s", 0.0),
               open.value("what", std::string()), open.value("why", std::string()));
  }
}

/// Returns the state of the leases: "20 s, 12 commands, the newest at 31.5 s; leads as host-1".
std::string leases(const LiveRun& run) {
  std::string out = fmt::format("{} s, {} commands", run.number<std::int64_t>("lease_s"),
                                run.number<std::uint64_t>("lease_commands"));
  if (const auto at = run.number<double>("lease_renewed_s"); at > 0) {
    out += fmt::format(", the newest at {:.1f} s", at);
  }
  const std::string state = run.text("lease_state");
  return state.empty() ? out : out + "; " + state;
}

/// Prints the status of a policy on a cluster of `orrery cluster`.
void print_cluster(const LiveRun& run) {
  fmt::print("  {} on {} nodes x {} GPUs, {:.1f} s\n", run.text("policy"),
             run.number<std::uint64_t>("nodes"), run.number<std::uint64_t>("gpus_per_node"),
             run.number<double>("elapsed_s"));
  fmt::print("  jobs: {} waiting, {} running; ordered: {} starts, {} stops, {} not carried out\n",
             run.number<std::uint64_t>("waiting"), run.number<std::uint64_t>("running"),
             run.number<std::uint64_t>("starts"), run.number<std::uint64_t>("stops"),
             run.number<std::uint64_t>("orders"));
  fmt::print("  readings {}, {} failed, the slowest {:.0f} ms; decisions {}, complaints {}\n",
             run.number<std::uint64_t>("readings"), run.number<std::uint64_t>("failed_readings"),
             run.number<double>("slowest_reading_ms"), run.number<std::uint64_t>("decisions"),
             run.number<std::uint64_t>("complaints"));
  fmt::print("  leases {}\n", leases(run));
  print_questions(run);
}

void print_status(const LiveRun& run) {
  fmt::print("run {}  {}  {}  ({})\n", run.id, run.text("scenario"), run.text("phase"),
             run.text("mode"));
  if (run.is_cluster()) return print_cluster(run);
  if (run.status.is_object() && !run.status.contains("batch")) return print_program(run);
  fmt::print("  step {} of {}, {:.1f} s; newest step {:.3f} s, loss {:.4f}\n",
             run.number<std::uint64_t>("step"), run.number<std::uint64_t>("steps"),
             run.number<double>("elapsed_s"), run.number<double>("step_time_s"),
             run.number<double>("loss"));
  fmt::print("  batch {} micro-batches, learning rate x {}, {} samples{}\n",
             run.number<std::uint64_t>("batch"), run.number<double>("learning_rate_factor"),
             run.number<std::uint64_t>("samples"), delayed(run));
  fmt::print(
      "  ranks lost {}, controllers lost {}, decisions {}, checkpoints {} ({} failed), "
      "newest {}\n",
      run.number<std::uint64_t>("losses"), run.number<std::uint64_t>("controller_restarts"),
      run.number<std::uint64_t>("decisions"), run.number<std::uint64_t>("checkpoints_written"),
      run.number<std::uint64_t>("checkpoints_failed"), saved(run));
  if (!run.status.is_object()) return;
  if (const auto missing = run.number<std::uint64_t>("ranks_missing"); missing > 0) {
    fmt::print("  the job lacks {} rank{}\n", missing, missing == 1 ? "" : "s");
  }
  print_owed_answer(run);
  if (const std::string why = run.text("without_takeover"); why.length() > 1) {
    fmt::print("  without takeover: {}\n", why);
  }
  for (const auto& part : run.status.value("removals", ordered_json::array())) {
    print_removal(part);
  }
  for (const auto& part : run.status.value("slower", ordered_json::array())) {
    fmt::print("  {} works at {:.4g} % of its rate since {:.1f} s\n",
               part.value("part", std::string()), 100 * part.value("rate", 1.0),
               part.value("since_s", 0.0));
  }
  print_ranks(run);
}

bool still_there(const LiveRun& run) { return is_run(run.folder); }

int show_status(const std::string& name, bool json, bool watch) {
  LiveRun run = find_run(name);
  do {
    if (json) {
      run.status["run"] = run.id;
      fmt::print("{}\n", run.status.dump(watch ? -1 : 2));
    } else {
      print_status(run);
    }
    std::fflush(stdout);
    if (!watch) return 0;
    poll(nullptr, 0, 4 * live::kLookMs);
    run.status = read_status(run.folder);
  } while (still_there(run));
  fmt::print("run {} has ended\n", run.id);
  return 0;
}

[[noreturn]] void fail_to_leave(const std::string& path) {
  throw Error(ErrorKind::environment,
              fmt::format("cannot leave the order in {}: {}", path, std::strerror(errno)));
}

int make_file(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/// Writes an order into the run's folder under the next free number, completely or not at all.
void leave_order(const LiveRun& run, const ordered_json& order) {
  for (int number = 1; number < kMostOrders; ++number) {
    const std::string place =
        fmt::format("{}/{}{:06}{}", run.folder, live::kOrderPrefix, number, live::kOrderSuffix);
    const std::string fresh = place + ".new";
    const int file = make_file(fresh);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) fail_to_leave(fresh);
    const std::string text = order.dump();
    const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    const bool left = written && link(fresh.c_str(), place.c_str()) == 0;  // replaces no file
    const int reason = errno;
    unlink(fresh.c_str());
    errno = reason;
    if (left) return;
    if (errno != EEXIST) fail_to_leave(place);
  }
  throw Error(ErrorKind::environment,
              "the run does not read its orders; is it stopped or "
              "suspended?");
}

/// Returns the number of the newest event in the status; 0 without one.
std::uint64_t newest_event(const LiveRun& run) {
  const auto events = run.status.is_object() ? run.status.value("events", ordered_json::array())
                                             : ordered_json::array();
  return events.empty() ? 0 : events.back().value("number", std::uint64_t{0});
}

/// Returns the line of the first event after number `seen` that answers an order: a line that
/// begins with `accepted`, or "an order is refused: SUBJECT: ..."; empty if there is none yet.
std::string answer_about(const LiveRun& run, const std::string& subject,
                         const std::string& accepted, std::uint64_t seen) {
  if (!run.status.is_object()) return {};
  for (const auto& event : run.status.value("events", ordered_json::array())) {
    if (event.value("number", std::uint64_t{0}) <= seen) continue;
    const std::string what = event.value("what", "");
    const bool refused = what.starts_with(fmt::format("{}{}:", live::kOrderRefused, subject));
    if (refused || what.starts_with(accepted)) return what;
  }
  return {};
}

/// Leaves an order, waits for the answer of the run and prints the answer. `subject`, `accepted`:
/// see answer_about(). Throws a usage Error with the reason if the run refuses the order, an
/// environment Error if it does not answer.
void order_and_wait(LiveRun run, const ordered_json& order, const std::string& subject,
                    const std::string& accepted) {
  const std::uint64_t seen = newest_event(run);
  leave_order(run, order);
  std::string said;
  for (int look = 0; said.empty() && look < kMostLooks && is_run(run.folder); ++look) {
    poll(nullptr, 0, live::kLookMs);
    run.status = read_status(run.folder);
    said = answer_about(run, subject, accepted, seen);
  }
  if (said.starts_with(live::kOrderRefused)) {
    throw Error(ErrorKind::usage, said.substr(live::kOrderRefused.size()));
  }
  if (said.empty()) {
    throw Error(ErrorKind::environment,
                fmt::format("expected an answer of run {} within {} s, found none: the run is not "
                            "training or has ended; see orrery status",
                            run.id, kMostLooks * live::kLookMs / 1000));
  }
  fmt::print("run {}: {}\n", run.id, said);
}

/// Order that sets a parameter.
ordered_json set_order(const ParameterSet& set) {
  return {
      {"set", {{"policy", set.policy}, {"parameter", set.parameter}, {"value", set.value}}}};
}

/// Sends `mode=value` to a run on a cluster, which refuses a mode that it cannot change to.
int set_mode(const std::string& name, const std::string& value) {
  if (!find_named<HandOverMode>(value)) {
    throw Error(ErrorKind::usage,
                fmt::format("mode: expected {}, got '{}'{}",
                            fmt::join(all_names<HandOverMode>(), " or "), value,
                            did_you_mean(value, all_names<HandOverMode>())));
  }
  const LiveRun run = find_run(name);
  if (!run.is_cluster()) {
    throw Error(ErrorKind::usage,
                fmt::format("mode: expected a run of orrery cluster, whose mode can change, found "
                            "run {} ({}); start it again with --mode {}",
                            run.id, run.text("scenario"), value));
  }
  const std::string mode(kModeParameter);
  order_and_wait(run, set_order({.policy = {}, .parameter = mode, .value = value}), mode,
                 mode + " = ");
  return 0;
}

/// Sends `policy.parameter=value`, as in the scenario, or a mode. Refuses a text that cannot be a
/// parameter of that policy; the run itself refuses a value with which it cannot continue.
int set_parameter(const std::string& name, const std::string& setting) {
  const std::size_t dot = setting.find('.'), equals = setting.find('=');
  if (equals != std::string::npos && setting.substr(0, equals) == kModeParameter) {
    return set_mode(name, setting.substr(equals + 1));
  }
  if (dot == std::string::npos || equals == std::string::npos || dot > equals) {
    throw Error(ErrorKind::usage,
                fmt::format("expected POLICY.PARAMETER=VALUE, such as recover.how=shrink, got "
                            "'{}'",
                            setting));
  }
  const ParameterSet set = parameter_set(setting);
  set_field(*policy_parameters(set.policy, {}), set.parameter, set.value, "orrery set");
  const LiveRun run = find_run(name);
  const auto policies = run.status.is_object() ? run.status.value("policies", ordered_json::array())
                                               : ordered_json::array();
  if (std::find(policies.begin(), policies.end(), set.policy) == policies.end()) {
    throw Error(ErrorKind::usage, fmt::format("run {} has no policy '{}'; it has: {}", run.id,
                                              set.policy, policies.dump()));
  }
  if (run.is_cluster()) {
    order_and_wait(run, set_order(set), set_name(set), set_name(set) + " = ");
    return 0;
  }
  leave_order(run, set_order(set));
  fmt::print("run {} continues with {} = {}\n", run.id, set_name(set), set.value);
  return 0;
}

/// Returns the part that a user names: "node:1", "node=1", "node 1" or "gpu:3".
Part parse_part(const std::string& text) {
  const auto is_letter = [](unsigned char letter) { return std::isalpha(letter) != 0; };
  const auto kind_end = std::find_if_not(text.begin(), text.end(), is_letter);
  const std::string kind(text.begin(), kind_end);
  const std::size_t digits = text.find_first_not_of(":= ", kind.size());
  const std::string index = digits == std::string::npos ? "" : text.substr(digits);
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(index.data(), index.data() + index.size(), number);
  const bool is_number = !index.empty() && failure == std::errc() && *end == '\0';
  const std::vector<std::string> kinds{"gpu", "node"};
  if (is_number && kind == kinds[0]) return {PartKind::gpu, number};
  if (is_number && kind == kinds[1]) return {PartKind::node, number};
  const std::string near(nearest_name(kind, kinds));
  const std::string hint =
      near.empty() ? "" : fmt::format("; did you mean {}:{}?", near, is_number ? number : 0);
  throw Error(ErrorKind::usage, fmt::format("expected a GPU or node of the run's cluster, such as "
                                            "gpu:3 or node:1, got '{}'{}",
                                            text, hint));
}

/// Options of `orrery drain`.
struct Drain {
  std::string part, in = "30 s", lasts;
  bool test = false;
};

/// Returns a time of the command line in seconds; 0 for an empty text. `field`: field of a fault
/// with the same rule.
double parse_time(const std::string& text, const char* field, const char* option) {
  Fault fault;
  if (text.empty()) return 0;
  set_field(fault, field, text, option);
  return to_seconds(fault.has_notice() ? fault.notice() : fault.for_());
}

/// Announces the removal of a part, and prints the answer of the run. Throws a usage Error with the
/// reason if the run refuses the order, an environment Error if it does not answer.
int drain_part(const std::string& name, const Drain& how) {
  const Part part = parse_part(how.part);
  ordered_json order{{"part", std::string(name_of(part.kind))},
                     {"index", part.index},
                     {"in_s", parse_time(how.in, "notice", "--in")},
                     {"test", how.test}};
  const double lasts = parse_time(how.lasts, "for", "--for");
  if (lasts > 0) order["for_s"] = lasts;
  if (how.test && lasts == 0) {
    throw Error(ErrorKind::usage,
                "--test: expected --for, the time after which the part returns and is tested");
  }
  const std::string subject = part_name(part);
  order_and_wait(find_run(name), {{"drain", order}}, subject, subject + " is to be removed");
  return 0;
}

/// Handles a line that an attached user typed: a yes or a no to the oldest question, or to the
/// question of a given number. Prints the oldest question if others wait too.
void answer(const LiveRun& run, const std::string& line) {
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
  const auto questions = run.status.is_object()
                             ? run.status.value("questions", ordered_json::array())
                             : ordered_json::array();
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
    run.status = read_status(run.folder);
    const auto events = run.status.is_object() ? run.status.value("events", ordered_json::array())
                                               : ordered_json::array();
    for (const auto& event : events) {
      const auto number = event.value("number", std::uint64_t{0});
      if (number <= shown) continue;
      shown = number;
      show(run, event, how);
    }
    for (const std::string& line : typed.lines()) answer(run, line);
  } while (still_there(run));
  if (!how.json) fmt::print("run {} has ended\n", run.id);
  return 0;
}

int stop(const std::string& name, bool checkpoint) {
  LiveRun run = find_run(name);
  run.status = read_status(run.folder);
  if (checkpoint && run.status.is_object() && !run.status.value("keeps_checkpoints", true)) {
    throw Error(ErrorKind::usage,
                fmt::format("--checkpoint: expected a run with a folder for checkpoints, but run "
                            "{} has none; stop it without --checkpoint, or set "
                            "checkpoints.folder in the scenario of the next run",
                            run.id));
  }
  const std::string path = run.folder + "/" + live::kStopFile;
  const int file = make_file(path);
  if (file < 0 && errno == EEXIST) {
    fmt::print("run {} has already been asked to stop\n", run.id);
    return 0;
  }
  const std::string how = checkpoint ? "checkpoint\n" : "now\n";
  const bool written =
      file >= 0 && write(file, how.data(), how.size()) == static_cast<ssize_t>(how.size());
  if (file >= 0) close(file);
  if (!written) fail_to_leave(path);
  fmt::print("run {} ends after the current {}{}\n", run.id, run.is_cluster() ? "reading" : "step",
             checkpoint ? ", with a checkpoint" : "");
  return 0;
}

struct RunsOptions {
  std::string run, setting;
  Attachment how;
  bool json = false, watch = false, checkpoint = false;
};

std::shared_ptr<RunsOptions> options_of(CLI::App& command, bool required) {
  const auto options = std::make_shared<RunsOptions>();
  CLI::Option* run = command.add_option(
      "RUN", options->run, "id of the run, its first characters, or the scenario's name");
  if (required) run->required();
  return options;
}

void add_set(CLI::App& app, Action& chosen) {
  CLI::App* change = app.add_subcommand(
      "set", "change a policy's parameter in a live run, or the mode of a run on a cluster");
  const auto changed = options_of(*change, true);
  change
      ->add_option("SETTING", changed->setting,
                   "POLICY.PARAMETER=VALUE, as in the scenario, or mode=shadow, approve or drive")
      ->required();
  add_examples(*change, {"orrery set a1B2c3 predictive-rebalance.gain_threshold=0.1",
                         "orrery set slurm mode=drive"});
  change->callback([changed, &chosen] {
    chosen = [changed] { return set_parameter(changed->run, changed->setting); };
  });
}

}  // namespace

void add_runs(CLI::App& app, Action& chosen) {
  CLI::App* list = app.add_subcommand("runs", "live runs of this user on this machine");
  const auto json = std::make_shared<bool>(false);
  list->add_flag("--json", *json, "print JSON");
  add_examples(*list, {"orrery runs"});
  list->callback([json, &chosen] { chosen = [json] { return list_runs(*json); }; });

  CLI::App* look = app.add_subcommand("status", "status of a live run");
  const auto looked = options_of(*look, false);
  look->add_flag("--json", looked->json, "print JSON; with --watch a line a second");
  look->add_flag("--watch", looked->watch, "repeat every second until the run has ended");
  add_examples(*look, {"orrery status", "orrery status a1B2c3 --watch"});
  look->callback([looked, &chosen] {
    chosen = [looked] { return show_status(looked->run, looked->json, looked->watch); };
  });

  CLI::App* follow =
      app.add_subcommand("attach",
                         "show losses, recoveries, decisions and checkpoints of a live run; type "
                         "`approve` or `refuse` to answer its policies");
  const auto followed = options_of(*follow, false);
  follow->add_flag("--json", followed->how.json, "print a line of JSON for each event");
  follow
      ->add_option("--exec", followed->how.command,
                   "run this for each event, with the event as JSON for its last argument")
      ->type_name("COMMAND");
  add_examples(*follow, {"orrery attach a1B2c3", "orrery attach a1B2c3 --exec ./page-me.sh"});
  follow->callback([followed, &chosen] {
    chosen = [followed] { return attach(followed->run, followed->how); };
  });

  add_set(app, chosen);

  CLI::App* leave = app.add_subcommand(
      "drain", "announce that a GPU or node of a live run will be removed, so that its ranks move");
  const auto left = options_of(*leave, true);
  const auto drain = std::make_shared<Drain>();
  leave->add_option("PART", drain->part, "gpu:INDEX or node:INDEX, counted in the cluster")
      ->required();
  leave->add_option("--in", drain->in, "time until the removal")
      ->type_name("TIME")
      ->capture_default_str();
  leave->add_option("--for", drain->lasts, "time after which the part returns (default: never)")
      ->type_name("TIME");
  leave->add_flag("--test", drain->test, "start a process on each GPU of the part when it returns");
  add_examples(*leave, {"orrery drain a1B2c3 node:1 --in 30s",
                        "orrery drain a1B2c3 gpu:2 --in 1min --for 1h --test"});
  leave->callback(
      [left, drain, &chosen] { chosen = [left, drain] { return drain_part(left->run, *drain); }; });

  CLI::App* end = app.add_subcommand(
      "stop", "end a live run after the current step, or reading of a cluster");
  const auto ended = options_of(*end, true);
  end->add_flag("--checkpoint", ended->checkpoint,
                "with a checkpoint, if the run keeps "
                "checkpoints");
  add_examples(*end, {"orrery stop a1B2c3 --checkpoint"});
  end->callback(
      [ended, &chosen] { chosen = [ended] { return stop(ended->run, ended->checkpoint); }; });
}

}  // namespace orrery::cli
